"""Entries with state and timers in pages that are divided as they grow; every timer fires once."""

import millstream as ms
from millstream.plan.deployment import MemoryBudget

MEMORY = MemoryBudget(page_bytes=256)
KEYS = 1200


class Once(ms.ProcessFunction):
    seen = ms.ListState(int)

    def process(self, row, ctx):
        if not self.seen.get():
            ctx.event_timer(row["at"] + row["key"] % 100)
        self.seen.add(row["at"])

    def on_timer(self, timestamp, ctx):
        yield {"key": ctx.key[0], "at": timestamp, "n": len(self.seen.get())}
        self.seen.clear()


def inputs():
    rows = [{"key": number * 7 % KEYS, "at": number // KEYS * 10} for number in range(KEYS * 2)]
    return {"in": [{"__ms_mark": "watermark", "at": -1}, *rows]}


def expected():
    return {"out": [{"key": key, "at": key % 100, "n": 2} for key in range(KEYS)]}


def job():
    job = ms.Job("many-keys-process")
    rows = job.source("in", ms.memory([]), schema="key long, at long").event_time("at")
    rows.key_by("key").process(Once, schema="key long, at long, n int", id="once").sink("out", ms.collect("out"))
    return job
