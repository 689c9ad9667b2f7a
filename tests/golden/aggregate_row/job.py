"""Every built-in aggregate after every row; nulls are counted as rows only."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("aggregate-row")
    rows = job.source("in", ms.memory([]), schema="user string, x double")
    result = rows.key_by("user").aggregate(
        n=ms.count(),
        known=ms.count("x"),
        total=ms.sum("x"),
        mean=ms.avg("x"),
        least=ms.min("x"),
        most=ms.max("x"),
        first=ms.first("x"),
        last=ms.last("x"),
        emit="row",
        id="running",
    )
    result.sink("out", ms.collect("out"))
    return job
