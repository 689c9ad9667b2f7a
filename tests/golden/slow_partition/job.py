"""The watermark is the minimum over partitions: the slow one holds windows open, so its rows are in time."""

import millstream as ms

PARTITION_BY = {"in": "shard"}
ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("slow-partition")
    rows = job.source("in", ms.memory([]), schema="shard string, user string, at long").event_time("at")
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
