"""Every built-in aggregate, for keys that changed in an epoch: the last row of a key is its result."""

import millstream as ms

LAST_BY = {"out": ["user"]}


def job():
    job = ms.Job("aggregate-epoch")
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
        emit="epoch",
        id="epoch",
    )
    result.sink("out", ms.collect("out"))
    return job
