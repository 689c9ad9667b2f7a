"""One Kafka broker for all processes of a test run, gone when the last of them is, however it ended.

Each process of the run holds a shared lock on a file, which the system lets go of when the process ends. A keeper, started by the
first process, runs the broker and waits until it can have that lock alone: then nobody is left. Tests use topics of their own.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from scripts import kafka_server
from tests.servers.kafka import MISSING, KafkaServer
from tests.servers.kafka_topics import KafkaTopics

_SECONDS = 120
_ROOT = Path(__file__).parents[2]


@functools.cache
def shared_kafka():
    """The broker of this test run; skips the test, with the command that helps, where none is installed."""
    if not kafka_server.home().exists():
        pytest.skip(MISSING)
    # All workers of one pytest-xdist run see the same id.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"of-{os.getpid()}")
    folder = Path(tempfile.gettempdir()) / f"ms-shared-kafka-{run}"
    until = time.monotonic() + _SECONDS
    while (server := _joined(folder)) is None:
        if time.monotonic() > until:
            msg = f"no Kafka broker in {_SECONDS} s: {_text(folder / 'log')[-2000:]}"
            raise TimeoutError(msg)
        time.sleep(0.02)
    return server


def _joined(folder):
    """The broker, held by this process; `None` when the keeper is just ending one."""
    folder.mkdir(exist_ok=True)
    with _locked(folder) as is_there:
        if not is_there:
            return None
        held = os.open(folder / "users", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            return None
        if not (folder / "servers").exists():
            _start_keeper(folder)
    # The lock is held until this process ends.
    return KafkaTopics((folder / "servers").read_text())


@contextlib.contextmanager
def _locked(folder):
    """One process at a time; `False` if the folder was removed meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder.exists() and os.fstat(handle).st_ino == folder.stat().st_ino
    finally:
        os.close(handle)


def _start_keeper(folder):
    """Returns when the broker answers."""
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "tests.servers.shared_kafka", str(folder)]
        subprocess.run(command, cwd=_ROOT, check=True, stdout=log, stderr=log, timeout=_SECONDS)


def _keep(folder):
    """Run the broker, let the starter go on, and wait until nobody uses it."""
    if keeper := os.fork():
        _await(folder / "servers", keeper)
        return
    os.setsid()
    server = KafkaServer().start()
    part = folder / "servers.part"
    part.write_text(server.servers)
    part.rename(folder / "servers")
    users = os.open(folder / "users", os.O_RDWR)
    fcntl.flock(users, fcntl.LOCK_EX)
    with _locked(folder):
        server.stop()
        shutil.rmtree(folder)
    os._exit(0)


def _await(path, keeper):
    while not path.exists():
        if os.waitpid(keeper, os.WNOHANG) != (0, 0):
            sys.exit("the broker did not start")
        time.sleep(0.02)


def _text(path):
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
