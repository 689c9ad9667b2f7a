"""Rows on their way into open windows: which windows they belong to, sessions that become one, and rows that are late."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

from millstream.runtime.operators.window.open_windows import Assigner
from millstream.runtime.operators.window.triggered.calls import WindowCalls
from millstream.runtime.operators.window.triggered.running_trigger import CONTINUE, FIRE
from millstream.runtime.operators.window.triggered.windows import ALWAYS, AnyWindow, Scope, settle
from millstream.state.entries import Entry


class WindowAdding:
    """Adds rows of one key to its windows, in the order they came. Windows stand in the order of their ends, which differ."""

    def __init__(self, calls: WindowCalls, entry: Entry, assign: Assigner | None) -> None:
        self._calls, self._entry, self._assign = calls, entry, assign
        self._lateness = calls.operation.lateness
        self._merges = calls.operation.window.kind == "session"
        self._is_event_timed = calls.operation.window.is_event_timed
        self._windows: list[AnyWindow] = list(entry.slots[-1] or ())
        self._ends = [window.end for window in self._windows]
        calls.scope.entry = entry

    def add(self, row: Any, time: int | None, values: tuple[Any, ...]) -> bool:
        """Add a row to its windows; `False` when all of them are gone."""
        # Windows without bounds keep event time for evictors, where there is any.
        goes_by_event = self._is_event_timed or self._assign is None
        at = time if goes_by_event and time is not None else self._calls.scope.now
        is_taken = False
        for start, end in self._assign(at) if self._assign is not None else (ALWAYS,):
            window = self._joined(start, end) if self._merges else self._found(start, end)
            if window is None:
                continue
            is_taken = True
            window.content = self._calls.contents.added(window.content, row, values, at)
            if time is not None and (window.newest is None or time > window.newest):
                window.newest = time
            self._ask(window, row, time)
        return is_taken

    def _ask(self, window: AnyWindow, row: Any, time: int | None) -> None:
        scope = self._calls.scope
        scope.open, scope.timestamp = window, time
        answer = self._calls.trigger.on_row(row, scope)
        if answer != CONTINUE:
            self._calls.obey(answer)
            if answer & FIRE and self._calls.ends_when_fired:
                self._calls.function.clear()
                self._take_out(bisect.bisect_left(self._ends, window.end), 1)
                scope.timestamp = None
                return
        scope.timestamp = None
        self._catch_up(window)

    def _catch_up(self, window: AnyWindow) -> None:
        """Ask about timers that the row set for the past now: in a later epoch, other rows might have come before."""
        scope, trigger = self._calls.scope, self._calls.trigger
        if window.event_timers and min(window.event_timers) <= scope.watermark:
            self._ask_past(window.event_timers, scope.watermark, trigger.on_event_time)
        if window.processing_timers and min(window.processing_timers) <= scope.clock:
            self._ask_past(window.processing_timers, scope.clock, trigger.on_processing_time)

    def _ask_past(self, timers: list[int], until: int, ask: Callable[[int, Scope], int]) -> None:
        """In the order of time; what a trigger sets for the past again meanwhile waits for an epoch, or this might not end."""
        for at in sorted(at for at in timers if at <= until):
            if at in timers:
                timers.remove(at)
                self._calls.obey(ask(at, self._calls.scope))

    def _found(self, start: int, end: int) -> AnyWindow | None:
        """The window with these bounds, new if there is none; `None` when it is gone."""
        if self._is_event_timed and end - 1 + self._lateness <= self._calls.scope.watermark:
            return None
        place = bisect.bisect_left(self._ends, end)
        if place < len(self._ends) and self._ends[place] == end:
            return self._windows[place]
        return self._put(place, self._calls.opened(start, end))

    def _put(self, place: int, window: AnyWindow) -> AnyWindow:
        self._windows.insert(place, window)
        self._ends.insert(place, window.end)
        return window

    def _take_out(self, place: int, count: int) -> None:
        del self._windows[place : place + count]
        del self._ends[place : place + count]

    def _joined(self, start: int, end: int) -> AnyWindow | None:
        """The session that a row makes of those it touches; `None` when it touches none and its own is gone.

        Sessions of a key lie apart, so that those which a row touches stand side by side.
        """
        first = behind = bisect.bisect_left(self._ends, start)
        while behind < len(self._windows) and self._windows[behind].start <= end:
            behind += 1
        touched = self._windows[first:behind]
        if not touched:
            return self._found(start, end)
        if len(touched) == 1 and touched[0].start <= start and end <= touched[0].end:
            return touched[0]
        merged = self._merged(touched, min(start, touched[0].start), max(end, touched[-1].end))
        self._take_out(first, len(touched))
        return self._put(first, merged)

    def _merged(self, touched: list[AnyWindow], start: int, end: int) -> AnyWindow:
        """Several sessions as one: its content is set, not added again; trigger and function say what else it has."""
        calls, scope = self._calls, self._calls.scope
        merged = calls.opened(start, end)
        merged.content = calls.contents.merged([window.content for window in touched])
        merged.newest = max((w.newest for w in touched if w.newest is not None), default=None)
        merged.pane = max(window.pane for window in touched)
        scope.open, scope.merging = merged, touched
        merged.is_on_time = scope.is_over and any(window.is_on_time for window in touched)
        calls.trigger.on_merge(scope)
        calls.function.on_merge()
        scope.merging = []
        return merged

    def settle(self) -> None:
        """Write the windows back to the entry, with the times at which it is due."""
        settle(self._entry, self._windows, self._calls.operation)
