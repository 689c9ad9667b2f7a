"""Triggers: when a window gives its result. Import it as `ms.trigger`; subclass `ms.Trigger` for one of your own."""

from __future__ import annotations

import enum
from typing import Any, Protocol

from millstream.api.functions.state import states_of
from millstream.graph.state import StateDescriptor
from millstream.graph.windows.trigger import TriggerSpec, checked_trigger
from millstream.graph.windows.window import WindowTime
from millstream.model.time import DurationLike, positive_ms

__all__ = [
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "count",
    "custom",
    "event_time",
    "every",
    "processing_time",
    "purging",
]


class TriggerResult(enum.IntFlag):
    """What a trigger answers."""

    CONTINUE = 0
    """Nothing happens."""
    FIRE = 1
    """The window gives its result."""
    PURGE = 2
    """The window forgets its rows."""
    FIRE_AND_PURGE = 3
    """Both, in this order."""


def event_time() -> TriggerSpec:
    """Fire when the watermark has passed the end of the window, and again for late rows, as windows do without a trigger.

    `.early(trigger)` fires before that as well; `.late(trigger)` says when late rows make it fire.
    """
    return TriggerSpec(kind="event_time")


def processing_time() -> TriggerSpec:
    """Fire when the epoch's clock has passed the end of the window."""
    return TriggerSpec(kind="processing_time")


def count(rows: int) -> TriggerSpec:
    """Fire after every so many rows of a window."""
    return TriggerSpec(kind="count", rows=rows)


def every(interval: DurationLike, *, time: WindowTime = "processing") -> TriggerSpec:
    """Fire at multiples of an interval, if rows came since, and at the end of the window; by event time also for late rows.

    Args:
        interval: firings align to 1970.
        time: `processing`, the epoch's clock; or `event`, the watermark: from the first multiple behind the earliest row on.
    """
    return TriggerSpec(kind="every", interval=positive_ms(interval, what="interval"), time=time)


def purging(trigger: TriggerSpec) -> TriggerSpec:
    """Forget the rows of a window whenever another trigger lets it fire."""
    return TriggerSpec(kind="purging", inner=checked_trigger(trigger))


def custom(trigger: Trigger | type[Trigger]) -> TriggerSpec:
    """A trigger of your own, to stand inside another."""
    return checked_trigger(trigger)


class TriggerContext(Protocol):
    """What a trigger may ask and do. Times are milliseconds since 1970."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The current key, one value per key column."""
        ...

    @property
    def timestamp(self) -> int | None:
        """Event time of the row, `None` without event time or outside `on_row`."""
        ...

    @property
    def watermark(self) -> int:
        """No row before this is expected any more."""
        ...

    @property
    def now(self) -> int:
        """The epoch's clock."""
        ...

    def event_timer(self, at: int) -> None:
        """Call `on_event_time` when the watermark reaches `at`."""
        ...

    def processing_timer(self, at: int) -> None:
        """Call `on_processing_time` when the clock reaches `at`."""
        ...

    def delete_event_timer(self, at: int) -> None:
        """Forget an event-time timer."""
        ...

    def delete_processing_timer(self, at: int) -> None:
        """Forget a processing-time timer."""
        ...

    def merged(self, state: Any) -> list[Any]:
        """In `on_merge`: what a state held in each of the windows that became one, the earliest first."""
        ...


class Trigger:
    """Subclass it for a trigger of your own; states declared as class attributes belong to the window."""

    def on_row(self, row: dict[str, Any], window: Any, ctx: TriggerContext) -> TriggerResult:
        """A row was added to a window, a `TimeWindow` or a `GlobalWindow`."""
        msg = f"{type(self).__name__} must define on_row(self, row, window, ctx)"
        raise TypeError(msg)

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer of the watermark is due; the default does nothing."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer of the clock is due; the default does nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Sessions became one, without state and timers yet. A trigger that does not define it cannot serve sessions."""

    @property
    def merges(self) -> bool:
        """Whether the trigger says what becomes of merged windows."""
        return type(self).on_merge is not Trigger.on_merge

    def state_descriptors(self) -> list[StateDescriptor]:
        """The declared states, as they go into the plan."""
        return [state.describe() for state in states_of(self).values()]
