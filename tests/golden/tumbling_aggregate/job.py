"""Aggregates per key and minute; rows come out of order; a row at the end of a window is in the next."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("tumbling-aggregate")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.tumbling("1m"))
        .aggregate(
            n=ms.count(),
            total=ms.sum("amount"),
            mean=ms.avg("amount"),
            least=ms.min("amount"),
            first=ms.first("amount"),
            last=ms.last("amount"),
            id="w",
        )
    )
    result.sink("out", ms.collect("out"))
    return job
