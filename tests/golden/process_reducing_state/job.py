"""Reducing state: every value is combined with what is stored; cleared, it begins anew."""

import dataclasses

import millstream as ms

ORDER_KEY = {"out": ["user"]}


@dataclasses.dataclass
class Span:
    low: int
    high: int


def wider(one, other):
    return Span(min(one.low, other.low), max(one.high, other.high))


class Reduce(ms.ProcessFunction):
    total = ms.ReducingState(int, int.__add__)
    span = ms.ReducingState(Span, wider)

    def process(self, row, ctx):
        if row["n"] is None:
            self.total.clear()
        else:
            self.total.add(row["n"])
            self.span.add(Span(row["n"], row["n"]))
        span = self.span.get()
        yield {
            "user": row["user"],
            "total": self.total.get(),
            "low": None if span is None else span.low,
            "high": None if span is None else span.high,
        }


def job():
    job = ms.Job("process-reducing-state")
    rows = job.source("in", ms.memory([]), schema="user string, n long")
    schema = "user string, total long, low long, high long"
    rows.key_by("user").process(Reduce, schema=schema, id="reducing").sink("out", ms.collect("out"))
    return job
