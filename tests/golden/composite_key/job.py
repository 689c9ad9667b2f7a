"""A key of three columns of different types, null among its values."""

import millstream as ms

ORDER_KEY = {"out": ["a", "b", "c"]}


def job():
    job = ms.Job("composite-key")
    rows = job.source("in", ms.memory([]), schema="a string, b long, c boolean, x long")
    rows.key_by("a", "b", "c").aggregate(total=ms.sum("x"), emit="row", id="sum").sink("out", ms.collect("out"))
    return job
