"""A late row fires only those of its windows that are still kept; without any it is late."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("sliding-late-firing")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.sliding("40s", "20s"), allowed_lateness="20s")
        .aggregate(n=ms.count(), total=ms.sum("amount"), id="w")
    )
    result.sink("out", ms.collect("out"))
    result.late.sink("late", ms.collect("late"))
    return job
