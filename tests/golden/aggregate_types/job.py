"""Aggregates of integers, text, booleans, dates and expressions keep or widen their type."""

import millstream as ms


def job():
    job = ms.Job("aggregate-types")
    rows = job.source("in", ms.memory([]), schema="k string, i int, s string, b boolean, d date")
    result = rows.key_by("k").aggregate(
        si=ms.sum("i"),
        ai=ms.avg("i"),
        twice=ms.sum("cast(i as long) * 2"),
        least_text=ms.min("s"),
        most_text=ms.max("s"),
        first_text=ms.first("s"),
        last_text=ms.last("s"),
        any=ms.max("b"),
        all=ms.min("b"),
        first_day=ms.min("d"),
        last_seen=ms.last("d"),
        emit="end",
        id="types",
    )
    result.sink("out", ms.collect("out"))
    return job
