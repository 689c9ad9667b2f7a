"""Every built-in aggregate, once per key when the input ends."""

import millstream as ms


def job():
    job = ms.Job("aggregate-end")
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
        emit="end",
        id="end",
    )
    result.sink("out", ms.collect("out"))
    return job
