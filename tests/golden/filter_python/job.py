"""Keep rows by a Python function; truthy values keep."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("filter-python")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.filter(lambda row: row["amount"] and row["user"] != "c").sink("out", ms.collect("out"))
    return job
