"""A single row through every kind of keyed step."""

import millstream as ms


class Echo(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


def job():
    job = ms.Job("one-row")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at")
    keyed = rows.key_by("user")
    keyed.aggregate(total=ms.sum("amount"), emit="end", id="at-end").sink("end", ms.collect("end"))
    keyed.aggregate(total=ms.sum("amount"), emit="row", id="by-row").sink("row", ms.collect("row"))
    keyed.aggregate(total=ms.sum("amount"), id="by-epoch").sink("epoch", ms.collect("epoch"))
    keyed.reduce(lambda held, row: row, id="reduce").sink("reduced", ms.collect("reduced"))
    keyed.process(Echo, schema="user string, amount long, at long", id="process").sink(
        "processed", ms.collect("processed")
    )
    keyed.window(ms.sliding("2s", "1s")).aggregate(total=ms.sum("amount"), id="w").sink("windows", ms.collect("w"))
    return job
