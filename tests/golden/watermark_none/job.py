"""Without a watermark nothing is late; windows close at the end of the input."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("watermark-none")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time(
        "at", watermark=ms.watermark.none()
    )
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
