"""Triggers that fire when a window ends, by event time or by the clock, and what rules before and after that."""

from __future__ import annotations

from typing import Any

from millstream.runtime.operators.window.triggered.running_trigger import CONTINUE, FIRE, Quiet, RunningTrigger
from millstream.runtime.operators.window.triggered.windows import Scope


class EndOfEventTime:
    """Fires when the watermark reaches the last instant; other triggers may rule before and after that."""

    def __init__(self, early: RunningTrigger | None, late: RunningTrigger | None) -> None:
        self._early, self._late = early, late

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        if scope.open.last <= scope.watermark:
            return FIRE if self._late is None else self._late.on_row(row, scope)
        scope.event_timer(scope.open.last)
        return CONTINUE if self._early is None else self._early.on_row(row, scope)

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        last = scope.open.last
        if time == last:
            if self._early is not None:
                self._early.clear(scope)
            return FIRE
        phase = self._early if time < last else self._late
        return CONTINUE if phase is None else phase.on_event_time(time, scope)

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        phase = self._late if scope.open.last <= scope.watermark else self._early
        return CONTINUE if phase is None else phase.on_processing_time(time, scope)

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        is_over = scope.open.last <= scope.watermark
        if not is_over:
            scope.event_timer(scope.open.last)
        phase = self._late if is_over else self._early
        if phase is not None:
            phase.on_merge(scope)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        scope.delete_event_timer(scope.open.last)
        for phase in (self._early, self._late):
            if phase is not None:
                phase.clear(scope)


class EndOfProcessingTime(Quiet):
    """Fires when the clock has passed the window: all epochs whose clock lies inside it are over."""

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        scope.processing_timer(scope.open.end)
        return CONTINUE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        return FIRE if time == scope.open.end else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        scope.processing_timer(scope.open.end)

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        scope.delete_processing_timer(scope.open.end)
