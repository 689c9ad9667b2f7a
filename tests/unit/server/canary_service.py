"""A service of real processes, a server and a node apart, in which secrets are planted; and everything that can be read of it."""

import base64
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import httpx2
import psycopg
from tests.unit.server.world import bearer

START = [sys.executable, "-m", "millstream.cli.main"]
PATIENCE = 60


class RealService:
    """Two processes on one database; what they print goes into files."""

    def __init__(self, folder, database):
        self.folder, self.database, self.processes = folder, database, []
        shared = [f"--{name}={folder / name}" for name in ("checkpoints", "artifacts")] + [f"--keys={folder}/keys.json"]
        where = [f"--database={database}", *shared, "--log-level=debug"]
        told = self._start("server", "start", f"--data={folder}/server", "--port=0", "--no-node", *where)
        self.url = self._line(told, r"serves at (\S+)")
        told = self._start("node", "start", f"--data={folder}/apart", "--warm-spark=0", *where)
        self.node = self._line(told, r"node (\S+) is there")
        token = (folder / "server/admin.token").read_text().strip()
        self.client = httpx2.Client(base_url=f"{self.url}/v1", headers=bearer(token), timeout=30)

    def _start(self, *words):
        path = self.folder / f"{words[0]}.out"
        command, aside = words[:2], [word for word in words[2:] if not (words[0] == "server" and "warm" in word)]
        known = {
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
        }
        with path.open("wb") as out:
            started = subprocess.Popen([*START, *command, *aside], stdout=out, stderr=out, env=known)
        self.processes.append(started)
        return path

    def _line(self, path, pattern):
        return self.until(lambda: re.search(pattern, path.read_text()), path.read_text)[1]

    def until(self, found, otherwise):
        end = time.monotonic() + PATIENCE
        while not (got := found()):
            assert time.monotonic() < end, otherwise()
            time.sleep(0.05)
        return got

    def asked(self, method, path, status, **more):
        answer = self.client.request(method, path, **more)
        assert answer.status_code == status, (method, path, answer.text)
        return answer

    def close(self):
        self.client.close()
        for path in self.folder.glob("apart/node/*/*/driver.json"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.killpg(int(re.search(rb'"pid": *(\d+)', path.read_bytes())[1]), signal.SIGKILL)
        for process in reversed(self.processes):
            process.terminate()
            process.wait(30)

    def family(self):
        """Our processes and all that they have started, drivers too, which are nobody's children."""
        mine = {process.pid for process in self.processes}
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line, parent = (
                    (path / "cmdline").read_bytes(),
                    int((path / "stat").read_text().rpartition(")")[2].split()[1]),
                )
                if int(path.name) in mine or parent in mine or str(self.folder).encode() in line:
                    found[path.name] = line + (path / "environ").read_bytes()
        return found

    def dumped(self):
        """Every value of every table."""
        if self.database.startswith("sqlite"):
            with contextlib.closing(sqlite3.connect(self.database.removeprefix("sqlite:///"))) as connection:
                tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
        with psycopg.connect(self.database) as connection:
            found = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
            tables = [name for (name,) in found.fetchall()]
            return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}


def forms(secret):
    """How a secret may stand somewhere: as it is, in urls, as hex digits, and inside of something in base64."""
    raw = secret.encode()
    yield from (raw, quote(secret).encode(), quote(secret, safe="").encode(), quote_plus(secret).encode())
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    for before in range(3):
        whole = base64.b64encode(b"-" * before + raw)
        # The letters at both ends depend on what stands beside it.
        yield whole[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]


def held(secrets, content):
    """The names of the secrets that a content holds in any form."""
    return [name for name, secret in secrets.items() if any(form in content for form in forms(secret))]
