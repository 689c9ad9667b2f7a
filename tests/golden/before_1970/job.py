"""Instants before 1970 fall into the window that holds them."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("before-1970")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), total=ms.sum("amount"), id="w")
    result.sink("out", ms.collect("out"))
    return job
