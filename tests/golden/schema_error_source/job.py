"""A record of another type ends the job: the source's policy is to fail."""

import millstream as ms

EXPECT_ERROR = "RUN-001"


def job():
    job = ms.Job("schema-error-source")
    job.source("in", ms.memory([]), schema="user string, amount long").sink("out", ms.collect("out"))
    return job
