"""Versions of one small job: a keyed sum that is suspended half-way and goes on as another version."""

import pytest
from stories import Ask, play

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused

ROWS = [{"k": "ab"[i % 2], "v": i, "at": 100 * i} for i in range(12)]
SCHEMA = "k string, v long, at long"
SUMS = "k string, x long"
SINKS = ("sums", "extra")


class Sum(ms.ProcessFunction):
    total = ms.ValueState(int)

    def process(self, row, ctx):
        self.total.update((self.total.value() or 0) + row["v"])
        yield {"k": ctx.key[0], "x": self.total.value()}


class SumAndCount(ms.ProcessFunction):
    """One more state, in front of the one that was there."""

    count = ms.ValueState(int)
    total = ms.ValueState(int)

    def process(self, row, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.total.update((self.total.value() or 0) + row["v"])
        yield {"k": ctx.key[0], "x": 1000 * self.count.value() + self.total.value()}


def new_job(parallelism=2):
    return ms.Job("evolving", rows_per_epoch=2, parallelism=parallelism)


def source(job, rows=ROWS, name="in", **options):
    return job.source(name, ms.memory(rows), schema=SCHEMA, **options)


def summing(function=Sum, *, id="sums", uid=None):
    """A source, a keyed step and a sink."""
    job = new_job()
    made = source(job).key_by("k").process(function, schema=SUMS, id=id, uid=uid)
    made.sink("out", ms.collect("evolving/sums"))
    return job


def saved(job, tmp_path):
    """Suspended when six rows were read: sums are 6 for a and 9 for b."""
    told = play(job, tmp_path / "old", Ask(after=2, to=tmp_path, id="s"))
    assert told.result.rows_in == 6
    return told.result.savepoint


def new_rows(sink="sums", known=6):
    return [(row["k"], row["x"]) for row in collected(f"evolving/{sink}")[known:]]


STRAIGHT = [("a", 12), ("b", 16), ("a", 20), ("b", 25), ("a", 30), ("b", 36)]


def go_on(job, tmp_path, **restore):
    return play(job, tmp_path / "new", savepoint=tmp_path / "savepoint-s", **restore)


def refused(job, tmp_path, **restore):
    before = list(collected("evolving/sums"))
    with pytest.raises(CheckpointRefused) as caught:
        go_on(job, tmp_path, **restore)
    assert collected("evolving/sums") == before
    assert not (tmp_path / "new" / "millstream" / "head.json").exists(), "refused before anything was touched"
    return caught.value


def forget():
    """Empty the sinks of all versions."""
    for sink in SINKS:
        clear(f"evolving/{sink}")
