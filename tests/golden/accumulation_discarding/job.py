"""Discarding: a firing has the rows since the last one. With allowed lateness rows stay until the window is forgotten,
or a late firing would replace a whole result by a part of it."""

import millstream as ms
from millstream.testing import WATERMARK

ORDER_KEY = {"parts": ["user", "start"], "whole": ["user", "start"], "default": ["user", "start"]}
COUNTED = ms.trigger.event_time().early(ms.trigger.count(2))
WAYS = {
    "parts": {"trigger": COUNTED},
    "whole": {"trigger": COUNTED, "allowed_lateness": "1m"},
    "default": {"allowed_lateness": "1m"},
}


def job():
    job = ms.Job("accumulation-discarding")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    for name, options in WAYS.items():
        window = rows.key_by("user").window(ms.tumbling("1m"), accumulation="discarding", **options)
        result = window.aggregate(total=ms.sum("amount"), id=f"{name}-w")
        result.select("user", "total", start="unix_seconds(window_start)").sink(name, ms.collect(name))
    return job


def inputs():
    rows = [{"user": "a", "amount": 2**i, "at": i} for i in range(5)]
    other = {"user": "b", "amount": 100, "at": 61_000}
    return {"in": [*rows[:3], other, WATERMARK("1m"), *rows[3:], WATERMARK("2m")]}


def expected():
    """Amounts 1, 2, 4 in time and 8, 16 late."""
    totals = {"parts": [3, 4], "whole": [3, 7, 15, 31], "default": [7, 15, 31]}
    other = {"user": "b", "total": 100, "start": 60}
    return {
        name: [*({"user": "a", "total": total, "start": 0} for total in some), other] for name, some in totals.items()
    }
