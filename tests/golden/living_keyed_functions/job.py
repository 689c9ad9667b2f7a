"""Process functions, window functions, triggers and patterns that make what they need in `open`; state stays state."""

import millstream as ms


class Converted(ms.ProcessFunction):
    total = ms.ValueState(int)

    def open(self, ctx):
        self.rates = {"eur": 2, "usd": 1}

    def process(self, row, ctx):
        self.total.update((self.total.value() or 0) + self.rates[row["unit"]] * row["n"])
        yield {"unit": row["unit"], "n": self.total.value()}


class Full(ms.Trigger):
    rows = ms.ValueState(int)

    def open(self, ctx):
        self.limit = 2

    def on_row(self, row, window, ctx):
        self.rows.update((self.rows.value() or 0) + 1)
        if self.rows.value() < self.limit:
            return ms.TriggerResult.CONTINUE
        self.rows.clear()
        return ms.TriggerResult.FIRE_AND_PURGE


class Listed:
    def open(self, ctx):
        self.name = "amounts"

    def __call__(self, key, window, rows):
        yield {"unit": key["unit"], self.name: [row["n"] for row in rows]}


class Above:
    def __init__(self, limit):
        self.limit = limit

    def open(self, ctx):
        self.holds = lambda row: row["n"] > self.limit

    def __call__(self, row):
        return self.holds(row)


class Pair:
    def open(self, ctx):
        self.stages = ("low", "high")

    def __call__(self, match):
        low, high = (match[stage][0]["n"] for stage in self.stages)
        return {"low": low, "high": high}


def job():
    job = ms.Job("living-keyed-functions")
    keyed = job.source("in", ms.memory([]), schema="unit string, n long").key_by("unit")
    keyed.process(Converted, schema="unit string, n long", id="converted").sink("totals", ms.collect("totals"))
    listed = keyed.window(ms.global_window(), trigger=Full()).process(
        Listed(), schema="unit string, amounts array<long>", id="listed"
    )
    listed.sink("lists", ms.collect("lists"))
    pattern = ms.pattern.begin("low").where(Above(0)).followed_by("high").where(Above(3))
    keyed.pattern(pattern).select(Pair(), schema="low long, high long", id="pairs").sink("out", ms.collect("out"))
    return job


def inputs():
    rows = [("eur", 1), ("usd", 5), ("eur", 2), ("usd", 1), ("eur", 4), ("usd", 2), ("eur", 0)]
    return {"in": [{"unit": unit, "n": n} for unit, n in rows]}


def expected():
    totals = [("eur", 2), ("eur", 6), ("eur", 14), ("eur", 14), ("usd", 5), ("usd", 6), ("usd", 8)]
    return {
        "totals": [{"unit": unit, "n": n} for unit, n in totals],
        "lists": [
            {"unit": "eur", "amounts": [1, 2]},
            {"unit": "eur", "amounts": [4, 0]},
            {"unit": "usd", "amounts": [5, 1]},
        ],
        "out": [{"low": 1, "high": 4}, {"low": 2, "high": 4}],
    }
