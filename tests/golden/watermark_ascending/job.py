"""In order: the newest time of a partition, less a millisecond. A row of the newest time itself is not late."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("watermark-ascending")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time(
        "at", watermark=ms.watermark.ascending()
    )
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
