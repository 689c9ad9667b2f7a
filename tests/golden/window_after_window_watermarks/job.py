"""The second window closes with the first: rows the watermark lets out of one are in time for the other."""

import millstream as ms

ORDER_KEY = {"out": ["n"]}


def job():
    job = ms.Job("window-after-window-watermarks")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time("at")
    minutes = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="minutes")
    pairs = minutes.key_by("n").window(ms.tumbling("1m")).aggregate(users=ms.count(), id="again")
    pairs.sink("out", ms.collect("out"))
    pairs.late.sink("late", ms.collect("late"))
    return job
