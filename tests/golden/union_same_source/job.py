"""A stream united with itself and with a part of itself: rows come as often as they are sent."""

import millstream as ms


def job():
    job = ms.Job("union-same-source")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.union(rows, rows.filter("amount > 2")).sink("out", ms.collect("out"))
    return job
