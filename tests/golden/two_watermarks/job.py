"""Windows over a union follow the slower of two scripted watermarks."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("two-watermarks")
    schema = "user string, at long"
    left = job.source("left", ms.memory([]), schema=schema).event_time("at")
    right = job.source("right", ms.memory([]), schema=schema).event_time("at")
    windows = left.union(right).key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
