"""Steps that start chains of their own, before and behind a key, with dead letters and event time on the way."""

import millstream as ms
from millstream.connectors.memory.spec import to_json

IGNORED = {"checked.dead": ["error"]}
SCHEMA = "user string, n long, at long"


def checked(row):
    if row["n"] < 0:
        raise ValueError("below zero")
    return row


def job():
    job = ms.Job("new-chains")
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    good = rows.map(checked, schema=SCHEMA, on_error=ms.dead_letter(ms.collect("dead")), id="checked").start_new_chain()
    timed = good.event_time("at", max_delay="1s", id="timed").start_new_chain()
    sums = timed.key_by("user").window(ms.tumbling("10s")).aggregate(n=ms.sum("n"), id="sums").start_new_chain()
    named = sums.map(lambda row: {"user": row["user"], "n": row["n"]}, schema="user string, n long", id="named")
    named.start_new_chain().filter("n > 1", id="many").start_new_chain().sink("out", ms.collect("out"))
    return job


def inputs():
    rows = [("a", 1, 0), ("b", 1, 500), ("a", 2, 9_000), ("a", -1, 9_500), ("b", 5, 12_000), ("a", 7, 25_000)]
    return {"in": [{"user": user, "n": n, "at": at} for user, n, at in rows]}


def expected():
    letter = '{"user": "a", "n": -1, "at": 9500}'
    return {
        "out": [{"user": "a", "n": 3}, {"user": "b", "n": 5}, {"user": "a", "n": 7}],
        "checked.dead": [
            {
                "step": "checked",
                "record": letter,
                "at": "1970-01-01T00:00:00+00:00",
                "origin": None,
                "raw": to_json(f'{{"row": {letter}}}'.encode()),
            }
        ],
    }
