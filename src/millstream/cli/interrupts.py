"""Signals while a job runs: the first asks it to drain, the second cancels it, a third leaves at once."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import typer

from millstream.api.result import RunResult
from millstream.api.running import RunningJob

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.2


class Interrupts:
    """Counts signals and passes them on as requests."""

    def __init__(self, running: RunningJob) -> None:
        self._running = running
        self._count = 0
        self._cancelled_at: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal handler; it only asks, the run acts when it can. Who reads the line may rely on having asked."""
        self._count += 1
        if self._count == 1:
            self._running.ask("drain")
            typer.echo(
                "draining: reading no more, closing windows, publishing the last epoch; press Ctrl-C again to stop at once",
                err=True,
            )
        elif self._count == 2:
            self._cancelled_at = time.monotonic()
            self._running.ask("cancel")
            typer.echo("stopping at once: what is not durable yet is done again by the next run", err=True)
        else:
            raise KeyboardInterrupt

    def result(self) -> RunResult:
        """The result of the run; one that was cancelled and does not end soon is left behind.

        What it had not made durable is done again by the next run, as after a crash.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                return self._running.wait(_POLL_SECONDS)
            if self._cancelled_at is not None and time.monotonic() - self._cancelled_at > _GRACE_SECONDS:
                raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts(running: RunningJob) -> Iterator[Interrupts]:
    """Handle signals in the body; only the main thread can."""
    found = Interrupts(running)
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    before = {number: signal.signal(number, found) for number in _SIGNALS}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
