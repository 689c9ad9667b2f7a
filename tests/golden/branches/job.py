"""One stream, three sinks: a branch does not take rows from another."""

import millstream as ms

ORDER_KEY = {"all": ["user"], "big": ["user"], "count": ["user"]}


def job():
    job = ms.Job("branches")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.sink("all", ms.collect("all"))
    rows.filter("amount >= 5").map(lambda row: row, schema="user string, amount long").sink("big", ms.collect("big"))
    rows.key_by("user").aggregate(n=ms.count(), emit="row", id="counts").sink("count", ms.collect("count"))
    return job
