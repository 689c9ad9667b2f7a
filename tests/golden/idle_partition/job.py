"""A partition without rows for a while no longer holds the watermark back; what it sends then is late."""

import millstream as ms

PARTITION_BY = {"in": "shard"}
ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("idle-partition")
    source = job.source("in", ms.memory([]), schema="shard string, user string, at long")
    windows = (
        source.event_time("at", idle_after="15s")
        .key_by("user")
        .window(ms.tumbling("1m"))
        .aggregate(n=ms.count(), id="w")
    )
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
