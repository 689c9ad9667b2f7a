"""A row is in two windows; first and last follow the order of time."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("sliding-aggregate")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="5m")
    result = (
        rows.key_by("user")
        .window(ms.sliding("40s", "20s"))
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
