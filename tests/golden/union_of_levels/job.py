"""A keyed result united with the stream it came from, which skipped a level on the way."""

import millstream as ms

ORDER_KEY = {"out": ["kind", "user"]}


def job():
    job = ms.Job("union-of-levels")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at")
    plain = rows.select("user", "amount", kind="'row'")
    totals = rows.key_by("user").aggregate(amount=ms.sum("amount"), emit="row", id="totals")
    both = plain.union(totals.select("user", "amount", kind="'total'"))
    both.sink("out", ms.collect("out"))
    both.key_by("kind").aggregate(n=ms.count(), most=ms.max("amount"), emit="end", id="by-kind").sink(
        "kinds", ms.collect("k")
    )
    return job
