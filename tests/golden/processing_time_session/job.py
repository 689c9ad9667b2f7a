"""Sessions of the clock: they end when no row of the key came for the gap. Results carry the newest event time."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["user"]}


class Timed(ms.ProcessFunction):
    def process(self, row, ctx):
        yield {**row, "time": ctx.timestamp}


def joined(key, window, rows):
    yield {"user": key["user"], "start": window.start, "end": window.end, "amounts": [row["amount"] for row in rows]}


def job():
    job = ms.Job("processing-time-session")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    schema = "user string, start long, end long, amounts array<long>"
    sessions = rows.key_by("user").window(ms.session("15s", time="processing")).process(joined, schema=schema, id="w")
    sessions.key_by("user").process(Timed, schema=f"{schema}, time long", id="t").sink("out", ms.collect("out"))
    return job


def inputs():
    tick = dict(ADVANCE_CLOCK("10s"))
    rows = [{"user": user, "amount": i, "at": 100 - i} for i, user in enumerate("aababa")]
    return {"in": [rows[0], rows[1], tick, rows[2], rows[3], tick, rows[4], tick, tick, rows[5], tick]}


def expected():
    """At 0 s: a, a. At 10 s: b, a. At 20 s: b. At 40 s: a, whose first session ended at 25 s; that of b ends at 35 s."""
    return {
        "out": [
            {"user": "a", "start": 0, "end": 25_000, "amounts": [0, 1, 3], "time": 100},
            {"user": "b", "start": 10_000, "end": 35_000, "amounts": [2, 4], "time": 98},
            {"user": "a", "start": 40_000, "end": 55_000, "amounts": [5], "time": 95},
        ]
    }
