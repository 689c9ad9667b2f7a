"""Time is milliseconds since 1970 in UTC, as an int; durations are milliseconds too."""

from __future__ import annotations

import datetime as dt
import math
import re
import time

from millstream.errors import InvalidSchema, InvalidStep, StepFailed

# Half of what an int64 holds: adding or subtracting a duration does not run over.
MIN_TIME = -(2**62)
"""Before every event: the watermark of an input that has shown nothing yet."""
MAX_TIME = 2**62
"""The end of time: the watermark of the terminal epoch, and of a source that has ended."""

_START = dt.datetime.fromtimestamp(0, dt.UTC)
_MS = dt.timedelta(milliseconds=1)
FIRST_EVENT = (dt.datetime(2, 1, 1, tzinfo=dt.UTC) - _START) // _MS
LAST_EVENT = (dt.datetime(9999, 1, 1, tzinfo=dt.UTC) - _START) // _MS - 1
"""Rows happen in the years 2 to 9998: the first and the last year that timestamps have are left to the bounds of windows."""
EVENT_RANGE = "milliseconds since 1970, within the years 2 to 9998"
_BEYOND_TIME = 2**63
_FINER = ((1_000, "microseconds"), (1_000_000, "nanoseconds"))

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)")

LONGEST_DURATION = 365_250 * _UNITS["d"]
"""A thousand years: so long before and behind the present there are still timestamps, and sums of durations are no matter."""

DurationLike = str | int | float | dt.timedelta


def now_ms() -> int:
    """This moment by the clock of this machine."""
    return int(time.time() * 1000)


def duration_ms(value: DurationLike, *, what: str = "duration") -> int:
    """Read `"1m"`, `"500ms"`, `"1h 30m"`, a timedelta, or a number of seconds."""
    ms = _read(value)
    if ms is None:
        msg = f"{what} is not a duration"
        raise InvalidStep(
            msg, code="STEP-004", found=repr(value), known=_UNITS, hint="write it like '1m', '500ms' or '1h 30m'"
        )
    return bounded_ms(ms, what=what, found=repr(value))


def _read(value: DurationLike) -> float | None:
    if isinstance(value, dt.timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    if isinstance(value, float) and math.isfinite(value):
        return value * 1000
    if isinstance(value, str):
        parts = _DURATION.findall(value)
        if parts and not _DURATION.sub("", value).strip():
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return None


def bounded_ms(ms: float, *, what: str, found: str) -> int:
    """Whole milliseconds of a duration that is not too long to reckon with."""
    if abs(ms) <= LONGEST_DURATION:
        return round(ms)
    msg = f"{what} is longer than 1000 years"
    raise InvalidStep(msg, code="STEP-004", found=found, known="at most '365250d'", hint="write a shorter duration")


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
    try:
        return _START + ms * _MS
    except OverflowError:
        msg = "an instant lies outside the years 1 to 9999, which is all that a datetime holds"
        raise InvalidSchema(
            msg, code="SCHEMA-020", found=f"{ms} ms since 1970", hint="correct the event time of the rows"
        ) from None


def event_time_problem(ms: int) -> str | None:
    """What is wrong with a time at which a row cannot have happened, with the unit that it may be in; `None` if it can."""
    if FIRST_EVENT <= ms <= LAST_EVENT:
        return None
    return f"{ms} is no event time: expected {EVENT_RANGE}{likely_unit(ms)}"


def likely_unit(ms: int) -> str:
    """A remark for milliseconds that no timestamp can hold: they may be of a finer unit."""
    is_in_last_year = LAST_EVENT < ms <= LAST_EVENT + 365 * 86_400_000
    finer = [f"; it looks like {unit}: divide by {n}" for n, unit in _FINER if FIRST_EVENT <= ms // n <= LAST_EVENT]
    return "" if is_in_last_year else "".join(finer[:1])


def instant_text(ms: int) -> str:
    """An instant for people: ISO text, `-` before any event, `end` at the end of time."""
    if ms <= MIN_TIME:
        return "-"
    if ms >= MAX_TIME:
        return "end"
    if not FIRST_EVENT <= ms <= LAST_EVENT:
        return f"{ms} ms"
    return to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timer_time(at: int, *, step: str) -> int:
    """The instant of a timer that user code sets."""
    instant = int(at)
    # A timer behind the end of time is none that fires, but one may be set, as a pause behind the last watermark.
    if abs(instant) < _BEYOND_TIME:
        return instant
    msg = "a timer is set for no instant"
    hint = "set it in milliseconds since 1970"
    raise StepFailed(msg, code="RUN-008", step=step, found=str(at), known=f"less than 2**63 ({EVENT_RANGE})", hint=hint)
