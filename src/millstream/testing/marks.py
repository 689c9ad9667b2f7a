"""Marks that stand between the rows of a script: each is taken as an epoch of its own, without rows."""

from __future__ import annotations

import datetime as dt
import types
import uuid
from collections.abc import Mapping
from typing import Any

from millstream.connectors.memory.spec import MARK
from millstream.errors import InvalidStep
from millstream.model.time import LAST_EVENT, DurationLike, duration_ms, event_time_problem

Mark = dict[str, Any]
Instant = int | str | dt.datetime | dt.timedelta
"""Milliseconds since 1970, a datetime (UTC when it has no zone), or a duration since 1970 such as `"1m"`."""

_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

EOF: Mapping[str, Any] = types.MappingProxyType({MARK: "eof"})
"""The input ends here; what follows in the script is not read."""


def WATERMARK(at: Instant) -> Mark:
    """The source says that it is complete through `at`: a row at `at` or before it is late from here on.

    In a script with watermarks they alone advance event time; `max_delay` does nothing for that source.
    """
    return {MARK: "watermark", "at": _instant(at)}


def ADVANCE_CLOCK(by: DurationLike) -> Mark:
    """Move the clock on: processing-time timers fall due, state expires, quiet partitions become idle."""
    return {MARK: "clock", "advance": duration_ms(by, what="ADVANCE_CLOCK")}


def ABORT() -> Mark:
    """Fail here once, as a crash does; the run is started again from its checkpoint and passes."""
    return {MARK: "abort", "id": uuid.uuid4().hex}


def _instant(at: Instant) -> int:
    if isinstance(at, bool) or not isinstance(at, (int, str, dt.datetime, dt.timedelta)):
        msg = "WATERMARK takes an instant"
        known = "milliseconds since 1970, a datetime, or a duration since 1970"
        raise InvalidStep(
            msg, code="TEST-002", found=repr(at), known=known, hint="write WATERMARK('1m') or WATERMARK(60_000)"
        )
    if isinstance(at, dt.datetime):
        at = (at if at.tzinfo else at.replace(tzinfo=dt.UTC)) - _START
    time = at if isinstance(at, int) else duration_ms(at, what="WATERMARK")
    if time > LAST_EVENT:
        msg = f"WATERMARK: {event_time_problem(time)}"
        hint = "write milliseconds; the end of the script moves the watermark to the end of time"
        raise InvalidStep(msg, code="TEST-002", found=repr(at), hint=hint)
    return time
