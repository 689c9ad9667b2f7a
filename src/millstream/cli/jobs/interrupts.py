"""Signals while a command runs a job: they end it as the job wishes, and a run that does not end is left behind."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial

import typer

from millstream.api.running.job import RunningJob
from millstream.api.running.result import RunResult
from millstream.graph.model import OnStop
from millstream.jobmaster.stopping import StopSignals

_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.2


class Interrupts:
    """Waits for a run whose end signals may ask for."""

    def __init__(self, running: RunningJob, on_stop: OnStop) -> None:
        self._running = running
        self.signals = StopSignals(running.ask, on_stop, partial(typer.echo, err=True))

    def result(self) -> RunResult:
        """The result of the run; one that was cancelled and does not end soon is left behind.

        What it had not made durable is done again by the next run, as after a crash.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                return self._running.wait(_POLL_SECONDS)
            asked = self.signals.cancelled_at
            if asked is not None and time.monotonic() - asked > _GRACE_SECONDS:
                raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts(running: RunningJob, on_stop: OnStop) -> Iterator[Interrupts]:
    """Handle signals in the body; only the main thread can."""
    stopping = Interrupts(running, on_stop)
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    stopping.signals.hold_all()
    try:
        yield stopping
    finally:
        stopping.signals.give_back()
