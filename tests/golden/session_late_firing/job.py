"""A late row lengthens a session that has fired; it fires again with its new end, and once more for each row after that."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("session-late-firing")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.session("10s"), allowed_lateness="10s")
        .aggregate(n=ms.count(), total=ms.sum("amount"), id="w")
    )
    result.sink("out", ms.collect("out"))
    result.late.sink("late", ms.collect("late"))
    return job
