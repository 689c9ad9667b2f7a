"""Process functions: user code with state and timers, called for each row of a key and for each due timer."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from millstream.api.functions.state import states_of
from millstream.graph.state import StateDescriptor
from millstream.model.time import to_datetime

Row = dict[str, Any]
"""A row as functions get it: values by column."""
Rows = Iterable[Mapping[str, Any]]
"""What functions give: any number of rows, usually with `yield`."""


class Context(Protocol):
    """What a process function may ask and do. Times are milliseconds since 1970."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The current key, one value per key column."""
        ...

    @property
    def timestamp(self) -> int | None:
        """Event time of the row or timer, `None` without event time."""
        ...

    @property
    def watermark(self) -> int:
        """No row before this is expected any more."""
        ...

    @property
    def now(self) -> int:
        """The epoch's clock: the same for every row of the epoch, and the same again on replay."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the run by name, defaults included: dates as `date`, instants as `datetime` of UTC."""
        ...

    def output(self, name: str, row: Mapping[str, Any]) -> None:
        """Emit a row to a side output declared with `outputs=`."""
        ...

    def event_timer(self, at: int) -> None:
        """Call `on_timer` when the watermark reaches `at`. Setting it twice fires once."""
        ...

    def processing_timer(self, at: int) -> None:
        """Call `on_timer` when the clock reaches `at`."""
        ...

    def delete_event_timer(self, at: int) -> None:
        """Forget an event-time timer."""
        ...

    def delete_processing_timer(self, at: int) -> None:
        """Forget a processing-time timer."""
        ...


class ProcessFunction:
    """Subclass it, declare states as class attributes, and yield rows from `process` and `on_timer`.

    Rows of one key come in order. Within an epoch, timers due by then run before new rows. State, timers and
    output of an epoch are kept together or not at all.
    """

    def process(self, row: Row, ctx: Context) -> Rows | None:
        """Handle one row."""
        msg = f"{type(self).__name__} must define process(self, row, ctx)"
        raise TypeError(msg)

    def on_timer(self, timestamp: int, ctx: Context) -> Rows | None:
        """Handle a due timer; the default does nothing."""

    def state_descriptors(self) -> list[StateDescriptor]:
        """The declared states, as they go into the plan."""
        return [state.describe() for state in states_of(self).values()]


class CoProcessFunction:
    """Like `ProcessFunction`, over two keyed streams that share state and timers per key."""

    def process_left(self, row: Row, ctx: Context) -> Rows | None:
        """Handle a row of the stream that `connect` was called on."""
        msg = f"{type(self).__name__} must define process_left(self, row, ctx)"
        raise TypeError(msg)

    def process_right(self, row: Row, ctx: Context) -> Rows | None:
        """Handle a row of the stream given to `connect`."""
        msg = f"{type(self).__name__} must define process_right(self, row, ctx)"
        raise TypeError(msg)

    def on_timer(self, timestamp: int, ctx: Context) -> Rows | None:
        """Handle a due timer; the default does nothing."""

    def state_descriptors(self) -> list[StateDescriptor]:
        """The declared states, as they go into the plan."""
        return [state.describe() for state in states_of(self).values()]


@dataclasses.dataclass(frozen=True, slots=True)
class TimeWindow:
    """The window given to a window function: `[start, end)` in milliseconds."""

    start: int
    end: int

    @property
    def max_timestamp(self) -> int:
        """The last instant inside the window."""
        return self.end - 1

    @property
    def start_time(self) -> dt.datetime:
        """The start as a datetime in UTC."""
        return to_datetime(self.start)

    @property
    def end_time(self) -> dt.datetime:
        """The end as a datetime in UTC."""
        return to_datetime(self.end)
