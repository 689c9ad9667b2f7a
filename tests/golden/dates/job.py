"""Dates as keys, values and state; leap days and days before 1970."""

import millstream as ms

ORDER_KEY = {"out": ["day"]}


class Latest(ms.ProcessFunction):
    from datetime import date

    latest = ms.ValueState(date)

    def process(self, row, ctx):
        if self.latest.value() is None or row["day"] > self.latest.value():
            self.latest.update(row["day"])
        yield {"user": row["user"], "latest": self.latest.value()}


def job():
    job = ms.Job("dates")
    rows = job.source("in", ms.memory([]), schema="user string, day date")
    rows.key_by("day").aggregate(n=ms.count(), emit="row", id="days").sink("out", ms.collect("out"))
    rows.select("user", next="date_add(day, 1)", year="year(day)").sink("next", ms.collect("next"))
    rows.key_by("user").process(Latest, schema="user string, latest date", id="latest").sink(
        "latest-day", ms.collect("latest")
    )
    return job
