"""What a trigger is asked while a job runs. Every trigger of a window is asked about every timer and knows its own."""

from __future__ import annotations

from typing import Any, Protocol

from millstream.api.values.trigger import TriggerResult
from millstream.runtime.operators.window.triggered.windows import AnyWindow, Scope, WindowCell

# Plain numbers, because rows are many.
CONTINUE, FIRE, PURGE = map(int, (TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE))


class RunningTrigger(Protocol):
    """A trigger while a job runs. It sees the open window and its timers through the scope."""

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        ...

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        ...

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        ...

    def on_merge(self, scope: Scope) -> None:
        """The windows in `scope.merging` became the open one, which has neither timers nor trigger state yet."""
        ...

    def clear(self, scope: Scope) -> None:
        """Forget state and timers: another trigger takes over."""
        ...


class Quiet:
    """A trigger that does nothing unless it says so."""

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        return CONTINUE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        return CONTINUE

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        return

    def clear(self, scope: Scope) -> None:
        """Forget state and timers."""
        return


def held(cell: WindowCell, windows: list[AnyWindow]) -> list[int]:
    """What a trigger keeps of some windows, where it keeps anything."""
    return [content for content in map(cell.content_of, windows) if content is not None]
