"""Aggregates, windows and error policies, as the user names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from millstream.errors import InvalidStep
from millstream.graph.function import mark_nondeterministic
from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.outputs import OnError
from millstream.graph.windows.window import WindowSpec, WindowTime
from millstream.model.connector import ConnectorSpec
from millstream.model.time import DurationLike, positive_ms, signed_ms

F = TypeVar("F", bound=Callable[..., Any])


def count(of: str | None = None, *, where: str | None = None) -> Aggregate:
    """Rows, or non-null values of a column or expression.

    Every aggregate takes `where`, an expression: rows for which it is not true do not count.
    """
    return Aggregate(kind="count", of=of, where=where)


def count_distinct(of: str, *, where: str | None = None) -> Aggregate:
    """How many different non-null values there are, exactly: state holds every value of a key once."""
    return Aggregate(kind="count_distinct", of=of, where=where)


def sum(of: str, *, where: str | None = None) -> Aggregate:
    """Sum of a column or expression; null when there was no value."""
    return Aggregate(kind="sum", of=of, where=where)


def avg(of: str, *, where: str | None = None) -> Aggregate:
    """Mean of a column or expression."""
    return Aggregate(kind="avg", of=of, where=where)


def min(of: str, *, where: str | None = None) -> Aggregate:
    """Smallest value."""
    return Aggregate(kind="min", of=of, where=where)


def max(of: str, *, where: str | None = None) -> Aggregate:
    """Largest value."""
    return Aggregate(kind="max", of=of, where=where)


def first(of: str, *, where: str | None = None) -> Aggregate:
    """First non-null value in arrival order; a sliding window takes its slide-long bins in the order of time."""
    return Aggregate(kind="first", of=of, where=where)


def last(of: str, *, where: str | None = None) -> Aggregate:
    """Last non-null value in arrival order; a sliding window takes its slide-long bins in the order of time."""
    return Aggregate(kind="last", of=of, where=where)


def tumbling(
    size: DurationLike, *, offset: DurationLike = 0, time: WindowTime = "event", time_zone: str | None = None
) -> WindowSpec:
    """Windows of one size, side by side, aligned to 1970 plus `offset`.

    Args:
        size: how long a window is.
        offset: shifts all windows; text may be negative, as in `'-1h'`.
        time: `event`, or `processing`: a row belongs to the window of its epoch's clock.
        time_zone: windows of days begin at midnight there, as in `Europe/Berlin`.
    """
    size_ms = positive_ms(size, what="window size")
    return WindowSpec(
        kind="tumbling",
        size=size_ms,
        slide=size_ms,
        offset=signed_ms(offset, what="window offset"),
        time=time,
        time_zone=time_zone,
    )


def sliding(
    size: DurationLike,
    slide: DurationLike,
    *,
    offset: DurationLike = 0,
    time: WindowTime = "event",
    time_zone: str | None = None,
) -> WindowSpec:
    """Windows of one size that start every `slide`; the size is a multiple of the slide. Options are those of `tumbling`."""
    return WindowSpec(
        kind="sliding",
        size=positive_ms(size, what="window size"),
        slide=positive_ms(slide, what="window slide"),
        offset=signed_ms(offset, what="window offset"),
        time=time,
        time_zone=time_zone,
    )


def cumulative(
    size: DurationLike, step: DurationLike, *, offset: DurationLike = 0, time: WindowTime = "event"
) -> WindowSpec:
    """Windows that begin together every `size` and end one `step` after the other: the first hour of a day, the first two, ….

    Args:
        size: how long the longest window is, a multiple of the step.
        step: how much longer each window is than the one before.
        offset: shifts all windows.
        time: `event`, or `processing`: a row belongs to the windows of its epoch's clock.
    """
    return WindowSpec(
        kind="cumulative",
        size=positive_ms(size, what="window size"),
        slide=positive_ms(step, what="window step"),
        offset=signed_ms(offset, what="window offset"),
        time=time,
    )


def session(gap: DurationLike, *, time: WindowTime = "event") -> WindowSpec:
    """Windows that end when a key was quiet for `gap`, by event time or by the clock."""
    return WindowSpec(kind="session", gap=positive_ms(gap, what="session gap"), time=time)


def count_window(size: int, slide: int | None = None) -> WindowSpec:
    """Every `size` rows of a key, as they come; with a slide, the last `size` rows after every `slide` rows."""
    return WindowSpec(kind="count", rows=size, every_rows=size if slide is None else slide)


def global_window() -> WindowSpec:
    """All rows of a key. It never ends; a trigger says when it gives a result."""
    return WindowSpec(kind="global")


def nondeterministic(function: F) -> F:
    """Say that a function, or a process function's class, may give another answer when an epoch is replayed.

    Under `exactly_once` such a step is refused before a `key_by` or `rebalance`: a replayed row might reach another subtask
    than the first time. Behind the last exchange, and under weaker guarantees, it is allowed.
    """
    mark_nondeterministic(function)
    return function


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """Bad records go to this sink, committed with the epoch."""

    sink: ConnectorSpec


def dead_letter(sink: ConnectorSpec) -> DeadLetter:
    """Send bad records to a sink: `on_error=ms.dead_letter(ms.files("dead/"))`."""
    return DeadLetter(sink)


OnErrorLike = Literal["fail", "skip"] | DeadLetter


def policy(on_error: OnErrorLike, step: str) -> OnError:
    """The policy as it stands in the plan."""
    if isinstance(on_error, DeadLetter):
        return "dead_letter"
    if on_error == "fail" or on_error == "skip":  # noqa: PLR1714
        return on_error
    msg = "unknown error policy"
    raise InvalidStep(
        msg,
        code="STEP-062",
        step=step,
        found=repr(on_error),
        known="fail, skip, ms.dead_letter(sink)",
        hint="correct on_error=",
    )
