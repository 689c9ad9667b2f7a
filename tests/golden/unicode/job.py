"""Text of every kind as key and value; equal-looking text in other normal forms stays apart."""

import millstream as ms

ORDER_KEY = {"out": ["word"]}


def job():
    job = ms.Job("unicode")
    rows = job.source("in", ms.memory([]), schema="word string, x long")
    upper = rows.with_columns(size="length(word)", high="upper(word)")
    upper.key_by("word", "size", "high").aggregate(total=ms.sum("x"), emit="row", id="sum").sink(
        "out", ms.collect("out")
    )
    return job
