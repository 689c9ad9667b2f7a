"""Conditions that ask for the clock: rows that come in the first half minute may complete a match."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

STOP = dict(ADVANCE_CLOCK("10s"))
USERS = ("ada", "bob", "cy")


def is_soon(row, context):
    return row["n"] > context.events("a")[-1]["n"] and context.processing_time < 30_000


def job():
    job = ms.Job("pattern-clock")
    rows = job.source("in", ms.memory([]), schema="user string, n long").key_by("user")
    first = ms.pattern.begin("a")
    made = rows.pattern(first.next("b").where("n > a.n and processing_time() < 30000"))
    made.measures(n="b.n", id="text").sink("out", ms.collect("out"))
    rows.pattern(first.next("b").where(is_soon)).measures(n="b.n", id="function").sink("same", ms.collect("same"))
    return job


def inputs():
    numbers = [1, 2, STOP, 3, STOP, 1, 5, STOP, 6, 7]
    return {
        "in": [
            row
            for number in numbers
            for row in ([number] if number is STOP else [{"user": user, "n": number} for user in USERS])
        ]
    }


def expected():
    rows = [{"user": user, "n": n} for user in USERS for n in (2, 3, 5)]
    return {"out": rows, "same": rows}
