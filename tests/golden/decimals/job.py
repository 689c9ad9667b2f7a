"""Exact decimals: sums gain ten digits, means four places rounded half up; as key and in state too."""

import millstream as ms

ORDER_KEY = {"running": ["k"], "reduced": ["k"]}


def add(held, row):
    return {"k": row["k"], "d": held["d"] + row["d"]}


def job():
    job = ms.Job("decimals")
    rows = job.source("in", ms.memory([]), schema="k string, d decimal(10,2)")
    keyed = rows.key_by("k")
    keyed.aggregate(s=ms.sum("d"), m=ms.avg("d"), lo=ms.min("d"), hi=ms.max("d"), emit="end", id="end").sink(
        "out", ms.collect("o")
    )
    keyed.aggregate(s=ms.sum("d"), m=ms.avg("d"), emit="row", id="row").sink("running", ms.collect("r"))
    rows.filter("k = 'a'").key_by("k").reduce(add, id="reduce").sink("reduced", ms.collect("d"))
    rows.key_by("d").aggregate(n=ms.count(), emit="end", id="by-d").sink("keys", ms.collect("k"))
    return job
