"""A stream without keys beside a broadcast one, behind a keyed step; bad broadcast rows are skipped once."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

STOP = dict(ADVANCE_CLOCK("10s"))


class Rates(ms.BroadcastFunction):
    rates = ms.BroadcastState(str, float)

    def process(self, row, ctx):
        if row["unit"] in self.rates:
            yield {"unit": row["unit"], "total": row["total"] * self.rates.get(row["unit"])}

    def process_broadcast(self, row, ctx):
        self.rates.put(row["unit"], 1 / row["per"])


def inputs():
    rates = [{"unit": "a", "per": 2.0}, {"unit": "b", "per": 4.0}, {"unit": "c", "per": 0.0}]
    rows = [{"unit": unit, "n": number} for number in range(5) for unit in "abc"]
    return {"in": [*rates, STOP, *rows]}


def expected():
    return {"out": [{"unit": "a", "total": 5.0}, {"unit": "b", "total": 2.5}]}


def job():
    job = ms.Job("broadcast-plain")
    both = job.source("in", ms.memory([]), schema="unit string, per double, n long")
    rates = both.filter("per is not null", id="rates")
    rows = both.filter("n is not null", id="rows")
    totals = rows.key_by("unit").aggregate(total=ms.sum("n"), emit="end", id="totals")
    made = totals.connect(rates.broadcast()).process(
        Rates, schema="unit string, total double", on_error="skip", id="converted"
    )
    made.sink("out", ms.collect("out"))
    return job
