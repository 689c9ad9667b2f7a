"""What happens to open windows when time goes on: due timers in the order of time, and windows that are forgotten."""

from __future__ import annotations

import heapq

from millstream.model.time import MAX_TIME
from millstream.plan.epoch import EpochTimes
from millstream.runtime.operators.window.triggered.calls import WindowCalls
from millstream.runtime.operators.window.triggered.windows import AnyWindow, end_of, ends_by_clock, settle
from millstream.state.entries import Entries, Entry
from millstream.state.pages import NEVER

_TIMER, _END = 0, 1
"""At one instant, timers come before a window is forgotten."""


class WindowFiring:
    """Event time first, then the clock.

    When the input ends the clock will not go on: timers of the clock that are still waiting come once, in the order of time, and
    then every window is forgotten. So a window of the clock fires, and rows that wait for a repeated trigger are shown.
    """

    def __init__(self, calls: WindowCalls, entries: Entries, times: EpochTimes) -> None:
        self._calls, self._entries, self._times = calls, entries, times
        self._is_event = True
        self._heap: list[tuple[int, int, int, Entry, AnyWindow]] = []
        self._pushed = 0

    def run(self) -> None:
        """Ask triggers about what the new watermark and the clock bring, and forget windows."""
        times, scope = self._times, self._calls.scope
        scope.clock = times.now
        # Windows without bounds are forgotten in the terminal epoch: they are not looked at anew because time has ended before.
        is_old = times.before == times.watermark == MAX_TIME and not times.terminal
        for share in self._entries.due_shares(event=MAX_TIME - 1 if is_old else times.watermark, processing=-MAX_TIME):
            self._advance(share)
        scope.watermark, self._is_event = times.watermark, False
        # Every open window has a time at which it is forgotten, so that the end of time finds them all.
        event, processing = (MAX_TIME, MAX_TIME) if times.terminal else (-MAX_TIME, times.now)
        for share in self._entries.due_shares(event=event, processing=processing):
            self._advance(share)

    def _advance(self, due: list[Entry]) -> None:
        held: list[tuple[Entry, list[AnyWindow]]] = [(entry, list(entry.slots[-1] or ())) for entry in due]
        for entry, windows in held:
            for window in windows:
                self._push_due(entry, window)
        gone: set[int] = set()
        while self._heap:
            at, kind, _, entry, window = heapq.heappop(self._heap)
            if id(window) in gone:
                continue
            self._stand_at(at, entry, window)
            if kind == _END:
                self._calls.function.clear()
                gone.add(id(window))
            else:
                self._ask(at, entry, window)
        for entry, windows in held:
            settle(entry, [window for window in windows if id(window) not in gone], self._calls.operation)

    def _push_due(self, entry: Entry, window: AnyWindow) -> None:
        operation, times = self._calls.operation, self._times
        if times.terminal and not self._is_event:
            for at in window.processing_timers:
                self._push(at, _TIMER, entry, window)
            self._push(NEVER, _END, entry, window)
            return
        self._push_timers(entry, window)
        end = end_of(window, operation)
        # Rows without event time may still come to windows without bounds, and timers of the clock.
        goes_by_this = operation.window.has_bounds and ends_by_clock(operation.window) != self._is_event
        if goes_by_this and self._is_due(end) and not times.terminal:
            self._push(end, _END, entry, window)

    def _stand_at(self, at: int, entry: Entry, window: AnyWindow) -> None:
        """Each instant is lived through as if time were there, so that it does not matter how far it went at once."""
        scope = self._calls.scope
        scope.entry, scope.open = entry, window
        if self._is_event:
            scope.watermark = max(at, self._times.before)
        else:
            scope.clock = max(at, self._times.now)

    def _ask(self, at: int, entry: Entry, window: AnyWindow) -> None:
        timers = window.event_timers if self._is_event else window.processing_timers
        if at not in timers:
            return
        timers.remove(at)
        trigger, scope = self._calls.trigger, self._calls.scope
        answer = trigger.on_event_time(at, scope) if self._is_event else trigger.on_processing_time(at, scope)
        self._calls.obey(answer)
        self._push_timers(entry, window, after=at)

    def _push_timers(self, entry: Entry, window: AnyWindow, *, after: int = -MAX_TIME) -> None:
        """Timers that are due; one that stands here twice is asked about once, one set for the past waits for an epoch."""
        for at in window.event_timers if self._is_event else window.processing_timers:
            if at > after and self._is_due(at):
                self._push(at, _TIMER, entry, window)

    def _is_due(self, at: int) -> bool:
        return at <= (self._times.watermark if self._is_event else self._times.now)

    def _push(self, at: int, kind: int, entry: Entry, window: AnyWindow) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at, kind, self._pushed, entry, window))
