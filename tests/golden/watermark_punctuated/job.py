"""Only marker rows move the watermark, to their own time; what lies before the newest row is in time until then."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("watermark-punctuated")
    source = job.source("in", ms.memory([]), schema="kind string, user string, at long")
    rows = source.event_time("at", watermark=ms.watermark.punctuated("kind = 'marker'")).filter("kind = 'row'")
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
