"""Without allowed lateness a row behind the watermark is late at once; the late output may be processed on."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def add(held, row):
    return {"user": row["user"], "amount": held["amount"] + row["amount"], "at": max(held["at"], row["at"])}


def job():
    job = ms.Job("late-output")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = rows.key_by("user").window(ms.tumbling("1m")).reduce(add, id="w")
    result.sink("out", ms.collect("out"))
    result.late.filter("amount > 2").key_by("user").aggregate(n=ms.count(), emit="end", id="count").sink(
        "late", ms.collect("late")
    )
    return job
