"""The watermark moves at most once an hour: after its first step it stays, and what would be late is in time."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("watermark-interval")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time("at", interval="1h")
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
