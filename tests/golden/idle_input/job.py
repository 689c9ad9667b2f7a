"""An input that never shows a row holds the other one back only until it is idle."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("idle-input")
    left = job.source("left", ms.memory([]), schema="user string, at long").event_time("at")
    right = job.source("right", ms.memory([]), schema="user string, at long").event_time("at", idle_after="15s")
    windows = left.union(right).key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
