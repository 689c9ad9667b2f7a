"""A JVM that we started: it tells where it listens, and is gone when we are."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.spark.start.private import open_log

_READY_SECONDS = 120.0
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A process that asks the kernel to be killed with its parent (PR_SET_PDEATHSIG), leaves Ctrl-C to it, and becomes another."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


class JvmDied(Exception):
    """It ended, or said nothing, before it could be used."""


class Jvm:
    """A process of Spark's that waits for Python.

    The kernel kills it when the thread that started it ends. That thread waits for the JVM and does nothing else, so it
    ends with this process, however that happens: RocksDB can keep a JVM that is told to stop for ever.
    """

    def __init__(
        self, command: list[str], *, told_at: Path, log: Path | int | None, environ: Mapping[str, str]
    ) -> None:
        """`log` is where it prints, a file or one that is open; without it, to where this process does."""
        self._told_at = told_at
        self._began = time.monotonic()
        self._started = threading.Event()
        self._problem: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        env = {**environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told_at)}
        # With it, workers would import pyspark from a zip, which takes each of them a second.
        env.pop("SPARK_HOME", None)
        keeper = threading.Thread(target=self._keep, args=(command, env, log), name="millstream-jvm", daemon=True)
        keeper.start()

    def _keep(self, command: list[str], env: dict[str, str], log: Path | int | None) -> None:
        try:
            with contextlib.ExitStack() as stack:
                error = stack.enter_context(open_log(log)) if isinstance(log, Path) else log
                output = log if isinstance(log, int) else None
                bound = [sys.executable, "-IS", "-c", _DIES_WITH_PARENT, str(os.getpid()), *command]
                self._process = subprocess.Popen(bound, stdin=subprocess.PIPE, stdout=output, stderr=error, env=env)
        except OSError as problem:
            self._problem = problem
            return
        finally:
            self._started.set()
        self._process.wait()

    @contextlib.contextmanager
    def announced(self) -> Iterator[None]:
        """Meanwhile PySpark connects to this JVM instead of starting one.

        Raises:
            JvmDied: it cannot be used.
        """
        content = self._connection()
        values = (str(int.from_bytes(content[:4], "big")), content[8:].decode())
        os.environ.update(zip(_GATEWAY, values, strict=True))
        try:
            yield
        finally:
            for name in _GATEWAY:
                os.environ.pop(name, None)

    def _connection(self) -> bytes:
        """What the JVM writes when it listens: its port, and the secret that opens it."""
        self._started.wait()
        while self.is_alive:
            # It may have said so long ago, for an earlier session of this process.
            with contextlib.suppress(FileNotFoundError):
                return self._told_at.read_bytes()
            if time.monotonic() - self._began > _READY_SECONDS:
                break
            time.sleep(0.005)
        raise JvmDied(self._account())

    def _account(self) -> str:
        if self._problem is not None:
            return str(self._problem)
        code = None if self._process is None else self._process.poll()
        return f"it said nothing in {_READY_SECONDS:g} s" if code is None else f"it ended with exit code {code}"

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Its process id, if it was started."""
        self._started.wait()
        return None if self._process is None else self._process.pid

    def kill(self) -> None:
        """End it now: what counts is durable, and everything else lies in a folder that goes with it."""
        self._started.wait()
        if self._process is not None:
            self._process.kill()
            self._close()

    def end(self, seconds: float) -> bool:
        """Let it end by itself, as its standard input does; whether it did so in time."""
        self._started.wait()
        if self._process is None:
            return False
        assert self._process.stdin is not None, "the JVM was started with a pipe"
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        self.kill()
        return False

    def _close(self) -> None:
        assert self._process is not None, "there is a process to close"
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
