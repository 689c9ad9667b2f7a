"""Sliding windows of the clock: a row is in each window that holds its epoch's clock."""

import datetime as dt

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("processing-time-sliding")
    keyed = job.source("in", ms.memory([]), schema="user string, amount long").key_by("user")
    keyed.window(ms.sliding("20s", "10s", time="processing")).aggregate(total=ms.sum("amount"), id="w").sink(
        "out", ms.collect("out")
    )
    return job


def inputs():
    tick = dict(ADVANCE_CLOCK("10s"))
    return {
        "in": [
            {"user": "a", "amount": 1},
            {"user": "b", "amount": 2},
            tick,
            {"user": "a", "amount": 4},
            tick,
            tick,
            {"user": "b", "amount": 8},
            tick,
        ]
    }


def expected():
    """The clock stood at 0 s, 10 s, 20 s, 30 s and 40 s."""
    found = [("a", -10, 1), ("b", -10, 2), ("a", 0, 5), ("b", 0, 2), ("a", 10, 4), ("b", 20, 8), ("b", 30, 8)]
    zero = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return {
        "out": [
            {
                "user": user,
                "window_start": zero + dt.timedelta(seconds=start),
                "window_end": zero + dt.timedelta(seconds=start + 20),
                "total": total,
            }
            for user, start, total in found
        ]
    }
