"""Time is milliseconds since 1970 in UTC, as an int; durations are milliseconds too."""

from __future__ import annotations

import datetime as dt
import math
import re

from millstream.errors import InvalidStep

MIN_TIME = -(2**62)
"""Before every event: the watermark of an input that has shown nothing yet."""
MAX_TIME = 2**62
"""The end of time: the watermark of the terminal epoch."""

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)")

DurationLike = str | int | float | dt.timedelta


def duration_ms(value: DurationLike, *, what: str = "duration") -> int:
    """Read `"1m"`, `"500ms"`, `"1h 30m"`, a timedelta, or a number of seconds."""
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return round(value * 1000)
    if isinstance(value, str):
        found = _DURATION.findall(value)
        if found and not _DURATION.sub("", value).strip():
            return round(sum(float(number) * _UNITS[unit] for number, unit in found))
    msg = f"{what} is not a duration"
    raise InvalidStep(
        msg, code="STEP-004", found=repr(value), known=_UNITS, hint="write it like '1m', '500ms' or '1h 30m'"
    )


def signed_ms(value: DurationLike, *, what: str) -> int:
    """A duration in either direction: text may begin with a minus, as in `"-5m"`."""
    if isinstance(value, str) and value.lstrip().startswith("-"):
        return -duration_ms(value.lstrip()[1:], what=what)
    return duration_ms(value, what=what)


def positive_ms(value: DurationLike, *, what: str) -> int:
    """A duration above zero."""
    ms = duration_ms(value, what=what)
    if ms <= 0:
        msg = f"{what} must be above zero"
        raise InvalidStep(msg, code="STEP-004", found=repr(value), hint="write it like '1m' or '500ms'")
    return ms


def to_datetime(ms: int) -> dt.datetime:
    """The instant as a datetime in UTC."""
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)


def instant_text(ms: int) -> str:
    """An instant for people: ISO text, `-` before any event, `end` at the end of time."""
    if ms <= MIN_TIME:
        return "-"
    if ms >= MAX_TIME:
        return "end"
    return to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
