"""Streams of different columns cannot be united; it is refused where it is written."""

import millstream as ms

EXPECT_ERROR = "STEP-045"


def job():
    job = ms.Job("union-schema-refused")
    left = job.source("left", ms.memory([]), schema="user string")
    right = job.source("right", ms.memory([]), schema="user long")
    left.union(right).sink("out", ms.collect("out"))
    return job
