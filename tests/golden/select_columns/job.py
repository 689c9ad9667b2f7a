"""Exactly the named columns, some of them expressions."""

import millstream as ms

ORDER_KEY = {"out": ["who"]}


def job():
    job = ms.Job("select-columns")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long")
    rows.select("amount", who="upper(user)", big="amount >= 5", sum="amount + at").sink("out", ms.collect("out"))
    return job
