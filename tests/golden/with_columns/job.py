"""Columns are added behind the others or replaced in place."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("with-columns")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.with_columns(amount="amount * 10", label="concat(user, '-', cast(amount as string))").sink(
        "out", ms.collect("out")
    )
    return job
