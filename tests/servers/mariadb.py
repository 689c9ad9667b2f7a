"""A real MariaDB server as a child process of the tests; `scripts/brokers.py install` fetches it."""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pymysql
import pytest
from scripts import brokers
from tests.servers.ports import free_ports

_CHILD = Path(__file__).with_name("child.py")
_START_SECONDS = 120
MISSING = "no MariaDB server; run `python scripts/brokers.py install`"


class MariadbServer:
    """One server in a folder of its own; its only user is root, without a password."""

    def __init__(self):
        if brokers.mariadb_program() is None:
            pytest.skip(MISSING)
        self.folder = Path(tempfile.mkdtemp(prefix="ms-mariadb-"))
        (self.port,) = free_ports(1)
        self.url = f"mysql://root@127.0.0.1:{self.port}/test"
        self._process = None

    def start(self):
        data, socket = self.folder / "data", self.folder / "socket"
        install = ["mariadb-install-db", "--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]
        subprocess.run([*install, f"--datadir={data}"], check=True, capture_output=True, timeout=_START_SECONDS)
        serve = [str(brokers.mariadb_program()), "--no-defaults", "--user=root", f"--datadir={data}"]
        places = [f"--socket={socket}", f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, str(_CHILD), str(os.getpid()), *serve, *places]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                msg = f"MariaDB does not start: {(self.folder / 'log').read_text()[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)
        return self

    def _answers(self):
        with contextlib.suppress(pymysql.MySQLError):
            self.execute("CREATE DATABASE IF NOT EXISTS test CHARACTER SET utf8mb4", database=None)
            return True
        return False

    def execute(self, text, values=(), database="test"):
        return self.many(text, [values], database)

    def many(self, text, rows, database="test"):
        connection = pymysql.connect(host="127.0.0.1", port=self.port, user="root", database=database, autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            for values in rows:
                cursor.execute(text, values or None)
            return list(cursor.fetchall())

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared_mariadb():
    """One server for all tests of this process."""
    server = MariadbServer()
    atexit.register(server.stop)
    return server.start()
