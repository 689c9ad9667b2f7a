"""An epoch that touches much state holds little of it at once, and gives the same rows as one that may hold all of it."""

from collections import Counter

import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.state import columns, entries, segments

KEYS, ROUNDS = 3000, 3
SMALL = {"page_bytes": 2000, "state_bytes": 64_000}


class Totals(ms.ProcessFunction):
    total = ms.ValueState(int)
    seen = ms.ListState(int)

    def process(self, row, ctx):
        total = (self.total.value() or 0) + row["v"]
        self.total.update(total)
        if len(self.seen.get()) < 2:
            self.seen.add(row["v"])
        ctx.event_timer(row["at"] + 5)
        yield {"k": row["k"], "total": total}

    def on_timer(self, at, ctx):
        yield {"k": ctx.key[0], "total": -self.total.value()}


def add(so_far, row):
    return {**row, "v": so_far["v"] + row["v"]}


def timed_job(step):
    job = ms.Job("budget")
    rows = job.source("in", ms.memory([]), schema="k long, v long, at long").event_time("at", max_delay=0.001)
    step(rows.key_by("k")).sink("out", ms.collect("x"))
    return job


RISING = ms.pattern.begin("low").next("high").where("v > low.v").skip_to_next()


STEPS = {
    "pattern": lambda keyed: keyed.pattern(RISING).measures(low="low.v", high="high.v", id="s"),
    "process": lambda keyed: keyed.process(Totals(), schema="k long, total long", id="s"),
    "reduce": lambda keyed: keyed.reduce(add, id="s"),
    "session": lambda keyed: keyed.window(ms.session(0.003)).aggregate(n=ms.count(), total=ms.sum("v"), id="s"),
    "aggregate": lambda keyed: keyed.aggregate(n=ms.count(), total=ms.sum("v"), id="s"),
    "aggregate at the end": lambda keyed: keyed.aggregate(n=ms.count(), total=ms.sum("v"), emit="end", id="s"),
    "tumbling": lambda keyed: keyed.window(ms.tumbling(0.01)).aggregate(n=ms.count(), total=ms.sum("v"), id="s"),
    "top": lambda keyed: keyed.top_n(2, by="v desc", id="s"),
    "top at the end": lambda keyed: keyed.top_n(2, by="v desc", emit="end", id="s"),
}
ROWS = {"pattern", "process", "reduce", "session"}
SEGMENTS = {"top", "top at the end"}


def run(step, **memory):
    """All rows of all epochs; each touches every key, the last fires everything."""
    epochs, made = Epochs(timed_job(STEPS[step]), **memory), []
    for number in range(ROUNDS):
        rows = [{"k": k, "v": (k * 7 + number) % 50, "at": 10 * number + k % 4} for k in range(KEYS)]
        made.append(epochs.run(rows, watermark=10 * number + 2)["out"])
    made.append(epochs.run(terminal=True)["out"])
    return made


@pytest.fixture
def held(monkeypatch):
    """The most pages that were decoded at once, by the counters that decide when they are let go."""
    seen = Counter()
    load, load_columns, load_segment = entries.Entries._load, columns.ColumnPages.load, segments.Segments._load

    def counted(self, page):
        found = load(self, page)
        seen["pages"] = max(seen["pages"], len(self._loaded))
        seen["bytes"] = max(seen["bytes"], self._held)
        return found

    def counted_columns(self, pages):
        found = load_columns(self, pages)
        seen["pages"] = max(seen["pages"], sum(page in self._pages for page in self._held))
        return found

    def counted_segments(self, place):
        found = load_segment(self, place)
        seen["segments"] = max(seen["segments"], 1 + sum(each._rows is not None for each in self._opened.values()))
        return found

    monkeypatch.setattr(segments.Segments, "_load", counted_segments)
    monkeypatch.setattr(entries.Entries, "_load", counted)
    monkeypatch.setattr(columns.ColumnPages, "load", counted_columns)
    return seen


@pytest.mark.parametrize("step", [step for step in STEPS if step not in SEGMENTS])
def test_few_pages_are_held_at_once(step, held):
    run(step, page_bytes=2000)
    everything = held["pages"]
    held.clear()
    run(step, **SMALL)
    # Rows: four pages at a time fill the budget. Columns: eight, or those of one key group.
    assert held["pages"] <= 16
    assert everything >= 8 * held["pages"]
    assert held["bytes"] <= 4 * SMALL["state_bytes"]


@pytest.mark.parametrize("step", sorted(SEGMENTS))
def test_few_segments_are_held_at_once(step, held):
    run(step)
    everything = held["segments"]
    held.clear()
    run(step, state_bytes=16_000)
    assert everything >= 8 * held["segments"] > 0


@pytest.mark.parametrize("step", STEPS)
def test_the_rows_are_the_same(step):
    def counted(epochs):
        return [Counter(tuple(row.items()) for row in rows) for rows in epochs]

    assert counted(run(step, **SMALL)) == counted(run(step))


@pytest.mark.parametrize("step", sorted(ROWS))
def test_rows_of_a_key_stay_in_order(step):
    def by_key(epochs):
        return {k: [row for rows in epochs for row in rows if row["k"] == k] for k in range(0, KEYS, 100)}

    assert by_key(run(step, **SMALL)) == by_key(run(step))


def test_the_order_is_the_same_again():
    assert run("process", **SMALL) == run("process", **SMALL)
