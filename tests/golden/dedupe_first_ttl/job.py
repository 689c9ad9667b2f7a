"""A key is forgotten some time after its row; its next row is the first again."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

TICK = dict(ADVANCE_CLOCK("10s"))


def inputs():
    rows = [{"k": "x", "n": 1}, {"k": "y", "n": 2}, {"k": "x", "n": 3}]
    more = [{"k": "x", "n": 4}, {"k": "z", "n": 5}]
    last = [{"k": "x", "n": 6}, {"k": "z", "n": 7}, {"k": "y", "n": 8}, {"k": "x", "n": 9}]
    return {"in": [*rows, TICK, *more, TICK, *last]}


def expected():
    pairs = [("x", 1), ("y", 2), ("z", 5), ("x", 6), ("y", 8)]
    return {"out": [{"k": key, "n": n} for key, n in pairs]}


def job():
    job = ms.Job("dedupe-first-ttl")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.key_by("k").deduplicate(ttl="20s", id="once").sink("out", ms.collect("out"))
    return job
