"""No rows at all: every sink stays empty and the job ends."""

import millstream as ms


def job():
    job = ms.Job("empty-input")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at")
    rows.sink("rows", ms.collect("rows"))
    keyed = rows.key_by("user")
    keyed.aggregate(n=ms.count(), emit="end", id="at-end").sink("end", ms.collect("end"))
    keyed.window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w").sink("windows", ms.collect("w"))
    keyed.window(ms.session("1m")).reduce(lambda held, row: row, id="s").sink("sessions", ms.collect("s"))
    return job
