"""Windows as the user names them: `ms.tumbling("1m")`."""

from __future__ import annotations

from millstream.graph.windows.window import WindowSpec, WindowTime
from millstream.model.time import DurationLike, positive_ms, signed_ms


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
