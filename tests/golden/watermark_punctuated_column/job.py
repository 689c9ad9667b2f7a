"""A column of some rows holds the watermark; it moves when every partition has given one."""

import millstream as ms

PARTITION_BY = {"in": "shard"}
ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("watermark-punctuated-column")
    source = job.source("in", ms.memory([]), schema="shard string, user string, at long, mark timestamp")
    rows = source.event_time("at", watermark=ms.watermark.punctuated("mark IS NOT NULL", column="mark"))
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
