"""Event time behind a key: a subtask whose keys are silent no longer holds the watermark back after a while."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def newest(held, row):
    return row


def job():
    job = ms.Job("idle-behind-a-key")
    rows = job.source("in", ms.memory([]), schema="user string, at long").key_by("user").reduce(newest, id="newest")
    timed = rows.event_time("at", idle_after="15s")
    windows = timed.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
