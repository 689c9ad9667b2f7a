"""Rows that fail in a Python step, or give what the schema does not allow, go to its dead letters."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}
IGNORED = {"half.dead": ["error"]}


def half(row):
    if row["amount"] % 2:
        raise ValueError("odd")
    return {"user": row["user"], "amount": "none" if row["amount"] == 0 else row["amount"] // 2}


def job():
    job = ms.Job("dead-letter-python")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    dead = ms.dead_letter(ms.collect("dead"))
    rows.map(half, schema="user string, amount long", on_error=dead, id="half").sink("out", ms.collect("out"))
    return job
