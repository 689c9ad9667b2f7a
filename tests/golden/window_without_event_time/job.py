"""A window needs event time; it is refused where it is written."""

import millstream as ms

EXPECT_ERROR = "STEP-040"


def job():
    job = ms.Job("window-without-event-time")
    rows = job.source("in", ms.memory([]), schema="user string")
    rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w").sink("out", ms.collect("out"))
    return job
