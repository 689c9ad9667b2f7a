"""A window function is called again with all rows for each late row; then rows go to the late output."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def listed(key, window, rows):
    amounts = [row["amount"] for row in rows]
    yield {"user": key["user"], "start": window.start, "end": window.end, "amounts": amounts}


def job():
    job = ms.Job("tumbling-late-firing-rows")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.tumbling("1m"), allowed_lateness="10s")
        .process(listed, schema="user string, start long, end long, amounts array<long>", id="w")
    )
    result.sink("out", ms.collect("out"))
    result.late.sink("late", ms.collect("late"))
    return job
