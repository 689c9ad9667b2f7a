"""Two sources of one schema, one longer than the other."""

import millstream as ms


def job():
    job = ms.Job("union-two-sources")
    left = job.source("left", ms.memory([]), schema="user string, amount long")
    right = job.source("right", ms.memory([]), schema="user string, amount long")
    left.union(right).filter("amount > 0").sink("out", ms.collect("out"))
    return job
