"""Rows are dealt out to all subtasks, mapped there, and counted again behind a second exchange."""

import millstream as ms

ORDER_KEY = {"total": ["kind"]}


def job():
    job = ms.Job("rebalance")
    rows = job.source("in", ms.memory([]), schema="n long").rebalance()
    mapped = rows.map(lambda row: {"kind": row["n"] % 2, "n": row["n"] * 2}, schema="kind long, n long")
    mapped.sink("out", ms.collect("out"))
    mapped.key_by("kind").aggregate(n=ms.count(), total=ms.sum("n"), emit="end", id="totals").sink(
        "total", ms.collect("t")
    )
    return job
