"""A reader process as its owner sees it: started, asked, ended. What it does is in `reader`."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

from millstream.driver.reader_lines import (
    LevelRead,
    LevelWanted,
    PageRead,
    ReadFailed,
    answer_in,
    error_in,
    line_of,
)
from millstream.spark.start.private import jvm_log, open_log
from millstream.tracebacks import is_debugging

_MODULE = "millstream.driver.reader"
_CHUNK = 1 << 20
_END_SECONDS = 15.0


def _command() -> list[str]:
    """Whose parent we are; what lies in the working directory must not take the place of modules (-P)."""
    return [sys.executable, "-P", "-m", _MODULE, str(os.getpid())]


class ReaderDied(Exception):
    """The process ended before its answer did."""


class ReaderSilent(Exception):
    """The process said nothing for too long."""


class ReaderProcess:
    """A process that answers one request after the other; it ends with its input, and with us."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as stack:
            log = None if is_debugging() else stack.enter_context(open_log(jvm_log()))
            self._process = subprocess.Popen(
                _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def ask(self, request: LevelWanted, into: IO[bytes], silence: float) -> None:
        """Write the lines of all pages into a file.

        Args:
            request: what to read.
            into: takes the lines; what stands in it when an error is raised does not count.
            silence: for how many seconds the process may say nothing.

        Raises:
            MillstreamError: the reader could not read it.
            ReaderDied: it ended meanwhile.
            ReaderSilent: it says nothing.
        """
        self._send(line_of(request))
        for line in self._lines(silence):
            match answer_in(line):
                case PageRead():
                    into.write(line + b"\n")
                case ReadFailed() as failure:
                    raise error_in(failure)
                case LevelRead():
                    return

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None, "the reader was started with a pipe"
        left = memoryview(line)
        try:
            while left:
                left = left[self._process.stdin.write(left) :]
        except BrokenPipeError:
            raise ReaderDied from None

    def _lines(self, silence: float) -> Iterator[bytes]:
        assert self._process.stdout is not None, "the reader was started with a pipe"
        source, poll, begun = self._process.stdout.fileno(), select.poll(), [b""]
        poll.register(source, select.POLLIN | select.POLLHUP)
        while True:
            if not poll.poll(silence * 1000):
                raise ReaderSilent
            part = os.read(source, _CHUNK)
            if not part:
                raise ReaderDied
            head, newline, rest = part.rpartition(b"\n")
            begun.append(head if newline else rest)
            if newline:
                yield from b"".join(begun).split(b"\n")
                begun = [rest]

    def close(self) -> int:
        """Let it end its JVM and go; one that does not is killed, and its JVM with it. Gives its exit code."""
        self._close_pipes()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def forget(self) -> None:
        """In a copy of the process that started it: whoever holds its pipes keeps it alive, and only the parent can wait."""
        self._close_pipes()
        self._process.returncode = 0

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "the reader was started with pipes"
            pipe.close()
