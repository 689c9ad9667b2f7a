"""Triggers that fire again and again: by count, by the clock, by the watermark; and those that purge when they do."""

from __future__ import annotations

from typing import Any

from millstream.model.time import MIN_TIME
from millstream.runtime.operators.window.triggered.running_trigger import (
    CONTINUE,
    FIRE,
    PURGE,
    Quiet,
    RunningTrigger,
    held,
)
from millstream.runtime.operators.window.triggered.windows import Scope, WindowCell


class Count(Quiet):
    """Fires after every so many rows."""

    def __init__(self, cell: WindowCell, rows: int) -> None:
        self._cell, self._rows = cell, rows

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        count = (self._cell.load() or 0) + 1
        is_full = count >= self._rows
        self._cell.store(None if is_full else count)
        return FIRE if is_full else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        self._cell.store(sum(held(self._cell, scope.merging)) or None)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        self._cell.store(None)


class EveryProcessing(Quiet):
    """Fires at the next multiple of an interval of the clock behind a row, and when the window ends."""

    def __init__(self, cell: WindowCell, interval: int) -> None:
        self._cell, self._interval = cell, interval

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        self._set_end(scope)
        if self._cell.load() is None:
            self._set((scope.now // self._interval + 1) * self._interval, scope)
        return CONTINUE

    def _set_end(self, scope: Scope) -> None:
        if scope.is_processing_timed:
            scope.processing_timer(scope.open.end)
        elif scope.is_event_timed and scope.open.last > scope.watermark:
            scope.event_timer(scope.open.last)

    def _set(self, at: int, scope: Scope) -> None:
        if not scope.is_processing_timed or at < scope.open.end:
            self._cell.store(at)
            scope.processing_timer(at)

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        if not scope.is_event_timed or time != scope.open.last:
            return CONTINUE
        self.clear(scope)
        return FIRE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        is_end = scope.is_processing_timed and time == scope.open.end
        if time != self._cell.load() and not is_end:
            return CONTINUE
        self.clear(scope)
        return FIRE

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        self._set_end(scope)
        if times := held(self._cell, scope.merging):
            self._set(min(times), scope)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        if (at := self._cell.load()) is not None:
            scope.delete_processing_timer(at)
            self._cell.store(None)


class EveryEvent(Quiet):
    """Fires at the multiples of an interval that the watermark passes and behind which rows came; at the end, and for late rows.

    They begin behind the window's earliest row: before that there is nothing to show.
    """

    def __init__(self, cell: WindowCell, interval: int) -> None:
        self._cell, self._interval = cell, interval

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        if scope.is_event_timed:
            if scope.open.last <= scope.watermark:
                return FIRE
            scope.event_timer(scope.open.last)
        assert scope.timestamp is not None, "a step with this trigger has event time"
        has_begun = scope.open.pane > 0 and scope.watermark > MIN_TIME
        from_then = scope.watermark + 1 if has_begun else max(scope.timestamp, scope.watermark + 1)
        self._set((from_then // self._interval + 1) * self._interval - 1, scope)
        return CONTINUE

    def _set(self, at: int, scope: Scope) -> None:
        """The earliest instant counts; the end of the window is one in any case."""
        known = self._cell.load()
        is_inside = not scope.is_event_timed or at < scope.open.last
        if is_inside and (known is None or at < known):
            self.clear(scope)
            self._cell.store(at)
            scope.event_timer(at)

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        if time == self._cell.load():
            self._cell.store(None)
            return FIRE
        return FIRE if scope.is_event_timed and time == scope.open.last else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        if scope.is_event_timed and scope.open.last > scope.watermark:
            scope.event_timer(scope.open.last)
        for at in held(self._cell, scope.merging):
            self._set(at, scope)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        if (at := self._cell.load()) is not None:
            scope.delete_event_timer(at)
            self._cell.store(None)


class Purging:
    """Forgets the rows whenever the inner trigger fires."""

    def __init__(self, inner: RunningTrigger) -> None:
        self._inner = inner

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        return _purged(self._inner.on_row(row, scope))

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        return _purged(self._inner.on_event_time(time, scope))

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        return _purged(self._inner.on_processing_time(time, scope))

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        self._inner.on_merge(scope)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        self._inner.clear(scope)


def _purged(answer: int) -> int:
    return answer | PURGE if answer & FIRE else answer
