"""Rows within the allowed lateness fire their window again with the whole result; later ones go to the late output."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("tumbling-late-firing")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.tumbling("1m"), allowed_lateness="10s")
        .aggregate(n=ms.count(), total=ms.sum("amount"), id="w")
    )
    result.sink("out", ms.collect("out"))
    result.late.sink("late", ms.collect("late"))
    return job
