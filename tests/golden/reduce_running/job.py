"""A running reduction per key: the first row stands for itself, each row gives a result."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("reduce-running")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, note string")
    (
        rows.key_by("user")
        .reduce(lambda held, row: {**row, "amount": held["amount"] + row["amount"]}, id="sum")
        .sink("out", ms.collect("out"))
    )
    return job
