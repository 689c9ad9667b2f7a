"""A Python step that gives a field its schema does not have ends the job."""

import millstream as ms

EXPECT_ERROR = "RUN-001"


def job():
    job = ms.Job("schema-error-python")
    rows = job.source("in", ms.memory([]), schema="user string")
    rows.map(lambda row: {**row, "extra": 1}, schema="user string").sink("out", ms.collect("out"))
    return job
