"""Null is a key of its own, apart from empty text and zero."""

import millstream as ms

ORDER_KEY = {"out": ["user"], "reduced": ["user"]}


def job():
    job = ms.Job("null-keys")
    rows = job.source("in", ms.memory([]), schema="user string, x long, at long").event_time("at", max_delay="1h")
    keyed = rows.key_by("user")
    keyed.aggregate(n=ms.count(), total=ms.sum("x"), emit="row", id="row").sink("out", ms.collect("out"))
    keyed.reduce(lambda held, row: {**row, "x": (held["x"] or 0) + (row["x"] or 0)}, id="r").sink(
        "reduced", ms.collect("r")
    )
    keyed.window(ms.tumbling("1m")).aggregate(total=ms.sum("x"), id="w").sink("windows", ms.collect("w"))
    keyed.window(ms.session("1m")).aggregate(total=ms.sum("x"), id="s").sink("sessions", ms.collect("s"))
    rows.key_by("x").aggregate(n=ms.count(), emit="end", id="by-x").sink("values", ms.collect("v"))
    return job
