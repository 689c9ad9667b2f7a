"""Keep rows by an expression; null is not true."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("filter-expression")
    job.source("in", ms.memory([]), schema="user string, amount long").filter("amount > 0 and user <> 'c'").sink(
        "out", ms.collect("out")
    )
    return job
