"""Rows with and without event time meet behind a union and are reduced together."""

import millstream as ms


class Largest(ms.ProcessFunction):
    def process(self, row, ctx):
        if row["amount"] >= 100:
            yield {"user": row["user"], "amount": row["amount"]}


def job():
    job = ms.Job("union-timed-and-untimed")
    timed = job.source("timed", ms.memory([]), schema="user string, amount long, at long").event_time("at")
    untimed = job.source("untimed", ms.memory([]), schema="user string, amount long, at long")
    both = timed.union(untimed)
    both.key_by("user").aggregate(n=ms.count(), total=ms.sum("amount"), emit="end", id="sum").sink(
        "out", ms.collect("out")
    )
    both.key_by("user").process(Largest, schema="user string, amount long", id="large").sink("largest", ms.collect("l"))
    return job
