"""A process that reads for the node: it can be ended in the middle of a question, and what it holds goes with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

import msgspec

from millstream.contract.stored_questions import LINE_LIMIT, StoredAnswer, StoredQuestion
from millstream.control.drivers.launch import clean_environment
from millstream.errors import ExternalFailure

_MODULE = "millstream.driver.stored.main"
_CHUNK = 1 << 20
_END_SECONDS = 5.0


class StoredProcess:
    """Answers one question after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # Safe path: modules are not looked for in the working directory of the node.
            [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What code of a job prints is not masked.
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=clean_environment(os.environ),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, question: StoredQuestion, seconds: float) -> StoredAnswer:
        """The answer to a question.

        Raises:
            ExternalFailure: (CTL-141) it took too long, or (CTL-142) the process ended. It is of no use any more.
        """
        end = time.monotonic() + seconds
        try:
            self._send(msgspec.json.encode(question) + b"\n")
            return msgspec.json.decode(self._line(end), type=StoredAnswer)
        except TimeoutError:
            msg = "reading what is stored took too long"
            hint = "ask for less: for a key, or for a smaller page"
            raise ExternalFailure(msg, code="CTL-141", found=f"more than {seconds:g} s", hint=hint) from None
        except (BrokenPipeError, EOFError):
            msg = "the process that reads what is stored ended before it had answered"
            hint = "ask again; if it ends again, see how much memory there is"
            raise ExternalFailure(msg, code="CTL-142", found=f"exit code {self._process.poll()}", hint=hint) from None

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        left = memoryview(line)
        while left:
            left = left[self._process.stdin.write(left) :]

    def _line(self, end: float) -> bytes:
        assert self._process.stdout is not None, "it was started with a pipe"
        source, parts, size = self._process.stdout.fileno(), [], 0
        poll = select.poll()
        poll.register(source, select.POLLIN | select.POLLHUP)
        while True:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise TimeoutError
            part = os.read(source, _CHUNK)
            parts.append(part)
            size += len(part)
            if not part or size > LINE_LIMIT:
                raise EOFError
            if part.endswith(b"\n"):
                return b"".join(parts)

    def close(self, *, at_once: bool = False) -> None:
        """Let it go, with the processes that it started itself; one that is at work, or does not go, is killed with them."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "it was started with pipes"
            pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not at_once:
                self._process.wait(_END_SECONDS)
        self.kill()
        self._process.wait()

    def kill(self) -> None:
        """End it now: whoever waits for its answer learns that it ended."""
        # One that has ended is not killed: its number may be another's. What it had started ends with it.
        with contextlib.suppress(ProcessLookupError):
            if self.is_alive:
                os.killpg(self._process.pid, signal.SIGKILL)
