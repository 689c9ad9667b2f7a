"""The log of a driver process: all that it and its children print, line by line, without control characters and secrets."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import select
import sys
import threading
from pathlib import Path
from typing import BinaryIO, TextIO

from millstream.driver.service.mask import Mask

LINE_BYTES = 16 << 10
FILE_BYTES = 10 << 20
KEPT_FILES = 5
JVM_LOG = "jvm.log"
_PIPE_BYTES = 1 << 20
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_CUT = b" ... (cut)"
_LEFT_SECONDS = 0.2
"""How long the last words of children are waited for."""


class RotatingFile:
    """`driver.log`, with `.1` to `.5` behind it when it is full."""

    def __init__(self, path: Path, mask: Mask, *, file_bytes: int = FILE_BYTES) -> None:
        self._path, self._mask, self._file_bytes = path, mask, file_bytes
        self._file = _opened(path)
        self._size = path.stat().st_size

    def write(self, line: bytes) -> None:
        """Write a line; one that is too long is cut."""
        # Hidden before it is cut: half a secret would not be known as one.
        shown = _CONTROL.sub(_escaped, self._mask.hidden(line))
        if len(shown) > LINE_BYTES:
            shown = shown[: LINE_BYTES - len(_CUT)] + _CUT
        if self._size + len(shown) > self._file_bytes:
            self._turn()
        self._file.write(shown + b"\n")
        self._file.flush()
        self._size += len(shown) + 1

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _turn(self) -> None:
        self._file.close()
        for number in range(KEPT_FILES - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._file, self._size = _opened(self._path), 0


class LogPump:
    """Writes to a file what processes print into a pipe.

    The pipe begins and ends in this process: nobody else holds it back, and its end is nobody's signal.
    """

    def __init__(self, file: RotatingFile) -> None:
        self._file = file
        self._read, self.write = os.pipe()
        fcntl.fcntl(self.write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._rest, self._skips = b"", False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._pump, name="millstream-log", daemon=True)
        self._thread.start()

    def turn_to(self, file: RotatingFile) -> None:
        """From now on lines go into another file; children that were started before print there too."""
        self._file = file

    def _pump(self) -> None:
        while not self._ends.is_set():
            if select.select([self._read], [], [], _LEFT_SECONDS)[0]:
                self._take()
        while select.select([self._read], [], [], 0)[0] and self._take():
            pass
        if self._rest and not self._skips:
            self._write(self._rest)

    def _take(self) -> bool:
        content = os.read(self._read, 1 << 16)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            if not self._skips:
                self._write(line)
            self._skips = False
        if len(self._rest) > 4 * LINE_BYTES:
            # Of a line without end only the beginning is kept, as of every long one.
            if not self._skips:
                self._write(self._rest)
            self._rest, self._skips = b"", True
        return bool(content)

    def _write(self, line: bytes) -> None:
        """Lines are lost while the disk is full: who prints must not wait for it."""
        with contextlib.suppress(OSError):
            self._file.write(line)

    def close(self) -> None:
        """Write what was printed so far; what comes later is lost."""
        self._ends.set()
        self._thread.join(timeout=5)
        self._file.close()


def jvm_output(path: Path, mask: Mask) -> LogPump:
    """Where Spark's JVM and workers print, until this process ends."""
    pump = LogPump(RotatingFile(path, mask))
    atexit.register(pump.close)
    return pump


class OwnOutput(LogPump):
    """Takes standard output and error of this process, and of children that have no other place."""

    def __init__(self, file: RotatingFile) -> None:
        super().__init__(file)
        for number in (1, 2):
            os.dup2(self.write, number)
        # Those of before may believe that they write to a file, in which one can seek.
        sys.stdout, sys.stderr = (_printing(number) for number in (1, 2))

    def close(self) -> None:
        """Write what was printed so far; what comes later is lost."""
        sys.stdout.flush()
        sys.stderr.flush()
        super().close()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)


def _printing(number: int) -> TextIO:
    return open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab")


def _escaped(found: re.Match[bytes]) -> bytes:
    return rb"\x%02x" % found[0][0]
