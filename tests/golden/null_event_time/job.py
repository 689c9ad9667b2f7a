"""A row without event time ends the job."""

import millstream as ms

EXPECT_ERROR = "RUN-001"


def job():
    job = ms.Job("null-event-time")
    job.source("in", ms.memory([]), schema="user string, at long").event_time("at").sink("out", ms.collect("out"))
    return job
