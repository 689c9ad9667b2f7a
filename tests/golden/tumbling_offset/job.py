"""Windows that start a quarter of a minute after the full one."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("tumbling-offset")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = rows.key_by("user").window(ms.tumbling("1m", offset="15s")).aggregate(n=ms.count(), id="w")
    result.sink("out", ms.collect("out"))
    return job
