"""A reduction over windows that overlap."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def add(held, row):
    return {"user": row["user"], "amount": held["amount"] + row["amount"], "at": max(held["at"], row["at"])}


def job():
    job = ms.Job("sliding-reduce")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = rows.key_by("user").window(ms.sliding("40s", "20s")).reduce(add, id="w")
    result.sink("out", ms.collect("out"))
    return job
