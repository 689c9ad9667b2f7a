"""Signals while a job runs: the first ends it as its job wishes, the next cancels it, one more leaves at once."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

from millstream.api.running.control import Action, RunControl
from millstream.api.running.result import RunResult
from millstream.graph.model import OnStop

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)
_TOLD: dict[OnStop, str] = {
    "cancel": "cancelling: what is not durable yet is done again by the next run; press Ctrl-C again to leave at once",
    "suspend": "suspending: taking a savepoint, closing no window; press Ctrl-C again to stop at once",
    "drain": (
        "draining: reading no more, closing windows, publishing the last epoch; press Ctrl-C again to stop at once"
    ),
}
_AT_ONCE = "stopping at once: what is not durable yet is done again by the next run"


class Ask(Protocol):
    """Hands a request to a run without waiting."""

    def __call__(self, action: Action, *, otherwise: Action | None = None) -> object:
        """`otherwise` is asked of the run if the first wish cannot be done."""
        ...


class StopSignals:
    """A signal handler that only asks; the run acts when it can. Who reads its line may rely on having asked."""

    def __init__(self, ask: Ask, on_stop: OnStop, tell: Callable[[str], None]) -> None:
        self._ask, self._on_stop, self._tell = ask, on_stop, tell
        self._before: dict[signal.Signals, Any] = {}
        self.received: signal.Signals | None = None
        self.cancelled_at: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.cancelled_at is not None:
            raise KeyboardInterrupt
        is_first = self.received is None
        self.received = signal.Signals(number)
        if not is_first or self._on_stop == "cancel":
            self.cancelled_at = time.monotonic()
            self._ask("cancel")
        else:
            # Who stops a service wants it to end, also where a savepoint cannot be written.
            self._ask(self._on_stop, otherwise="cancel")
        self._tell(_TOLD[self._on_stop] if is_first else _AT_ONCE)

    def hold(self) -> None:
        """Take the signals over where nobody has; called again behind whatever sets handlers of its own."""
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if _is_nobodys(handler):
                self._before[number] = handler
                signal.signal(number, self)

    def hold_all(self) -> None:
        """Take the signals over, whoever had them: for a process that does nothing but run the job."""
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self)

    def give_back(self) -> None:
        """Restore what stood before."""
        for number, handler in self._before.items():
            if signal.getsignal(number) is self:
                signal.signal(number, handler)

    def checked(self, result: RunResult) -> RunResult:
        """A result; a run that was cancelled by a signal ends its program too, now that it is closed."""
        if self.received is None or result.ended != "cancelled":
            return result
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        # As shells report a process that a signal ended.
        raise SystemExit(128 + self.received)


class NoSignals:
    """In other threads than the main one: signals are the program's own affair."""

    def hold(self) -> None:
        """There is nothing to take over."""

    def checked(self, result: RunResult) -> RunResult:
        """A result as it is."""
        return result


@contextlib.contextmanager
def stop_signals(control: RunControl, on_stop: OnStop) -> Iterator[StopSignals | NoSignals]:
    """While the body runs a job in the main thread, signals end it as `on_stop` says."""
    if threading.current_thread() is not threading.main_thread():
        yield NoSignals()
        return
    signals = StopSignals(control.ask, on_stop, _log.warning)
    signals.hold()
    try:
        yield signals
    finally:
        signals.give_back()


def _is_nobodys(handler: Any) -> bool:
    """Whether a program did not set a handler itself; Spark sets one wherever it starts."""
    is_sparks = getattr(handler, "__module__", None) == "pyspark.core.context"
    return handler in (signal.SIG_DFL, signal.default_int_handler) or is_sparks
