"""Functions per row and per batch that make what they need in `open`: without it they have nothing to answer with."""

import pyarrow as pa

import millstream as ms

SCHEMA = "user string, amount long"


class Priced:
    def __init__(self, price):
        self.price = price

    def open(self, ctx):
        self.prices = {ctx.step.split(".")[-1]: self.price}
        self.step = ctx.step.split(".")[-1]

    def __call__(self, row):
        return {"user": row["user"], "amount": row["amount"] * self.prices[self.step]}

    def close(self):
        del self.prices


class Kept:
    def open(self, ctx):
        self.banned, self.seen = {"mallory"}, ctx.counter("seen")

    def __call__(self, row):
        self.seen.add()
        return row["user"] not in self.banned


class Twice:
    def open(self, ctx):
        self.times = 2

    def __call__(self, row):
        return [row] * self.times


class Raised:
    def open(self, ctx):
        self.by = pa.scalar(1)

    def __call__(self, batch):
        raised = [value.as_py() + self.by.as_py() for value in batch.column("amount")]
        return pa.RecordBatch.from_arrays([batch.column("user"), pa.array(raised)], names=["user", "amount"])


class Greeted:
    async def open(self, ctx):
        self.greeting = "hello "

    async def __call__(self, row):
        return {"user": self.greeting + row["user"], "amount": row["amount"]}

    async def close(self):
        self.greeting = None


def job():
    job = ms.Job("living-row-functions")
    (
        job.source("in", ms.memory([]), schema=SCHEMA)
        .filter(Kept, id="kept")
        .map(Priced(3), schema=SCHEMA, id="priced")
        .flat_map(Twice(), schema=SCHEMA, id="twice")
        .map_batches(Raised, schema=SCHEMA, id="raised")
        .async_map(Greeted(), schema=SCHEMA, id="greeted")
        .sink("out", ms.collect("out"))
    )
    return job


def inputs():
    return {"in": [{"user": user, "amount": n} for n, user in enumerate(["ada", "mallory", "bob", "ada", "mallory"])]}


def expected():
    rows = [("ada", 0), ("bob", 2), ("ada", 3)]
    return {"out": [{"user": f"hello {user}", "amount": n * 3 + 1} for user, n in rows for _ in range(2)]}
