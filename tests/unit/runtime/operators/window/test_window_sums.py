"""Sliding windows of any span: what they come to is what their rows come to."""

import datetime as dt
import decimal
import math
import random
from collections import Counter, defaultdict

import pytest

import millstream as ms
from millstream.errors import StepFailed
from millstream.runtime.operators.window import sums as window_sums
from millstream.testing import run_job

SPANS = [*range(1, 18), 31, 32, 33]
AGGREGATES = {
    "n": ms.count(),
    "total": ms.sum("value"),
    "most": ms.max("value"),
    "first": ms.first("value"),
    "last": ms.last("value"),
    "different": ms.count_distinct("value"),
}


def rows_of(seed):
    """Rows in the order of time, with gaps longer than a short window."""
    chosen = random.Random(seed)
    at, made = 0, []
    for number in range(60):
        at += chosen.choice([0, 1, 300, 1_000, 2_500, 9_000])
        # The number of a row breaks ties: each value is one row's.
        made.append({"key": chosen.choice("ab"), "value": number * 10 + chosen.randrange(3), "at": at})
    return made


def expected(rows, span):
    windows = defaultdict(list)
    for row in rows:
        bin_of_row = row["at"] // 1000
        for start in range(bin_of_row - span + 1, bin_of_row + 1):
            windows[row["key"], start * 1000].append(row["value"])
    return {
        key: (len(found), sum(found), max(found), found[0], found[-1], len(set(found)))
        for key, found in windows.items()
    }


@pytest.mark.parametrize("count", [len(AGGREGATES), len(AGGREGATES) - 1], ids=["looked-for", "side-by-side"])
@pytest.mark.parametrize("span", SPANS)
def test_windows_of_any_span_come_to_what_their_rows_do(span, count, monkeypatch):
    names, taken = list(AGGREGATES)[:count], counted(monkeypatch)
    monkeypatch.setattr(window_sums, "_ROOM", 1_000)
    rows = rows_of(span)
    job = ms.Job("sums")
    keyed = job.source("in", ms.memory([]), schema="key string, value long, at long").event_time("at").key_by("key")
    keyed.window(ms.sliding(span, 1)).aggregate(**{name: AGGREGATES[name] for name in names}, id="w").sink(
        "out", ms.collect("out")
    )
    found = {}
    for row in run_job(job, {"in": rows}, rows_per_epoch=7)["out"]:
        start = round(row["window_start"].timestamp() * 1000)
        assert (row["key"], start) not in found
        found[row["key"], start] = tuple(row[name] for name in names)
    # Distinct values are looked for, and a window of one bin is that bin.
    assert bool(taken) == (count < len(AGGREGATES) and span > 1)
    assert found == {window: values[:count] for window, values in expected(rows, span).items()}


SCHEMA = "key string, other long, whole long, real double, text string, exact decimal(9,2), flag boolean, at timestamp"
OF_TYPES = {
    "n": ms.count("whole"),
    "total": ms.sum("whole"),
    "sum_real": ms.sum("real"),
    "mean": ms.avg("whole"),
    "least": ms.min("real"),
    "most": ms.max("real"),
    "first_text": ms.first("text"),
    "last_text": ms.last("text"),
    "least_text": ms.min("text"),
    "most_exact": ms.max("exact"),
    "first_flag": ms.first("flag"),
    "newest": ms.max("at"),
}


def row_of_types(chosen, second):
    """A row in which any value may be missing, and a number none."""

    def maybe(value):
        return None if chosen.random() < 0.3 else value

    return {
        "key": maybe(chosen.choice("ab")),
        "other": chosen.randrange(2),
        "whole": maybe(chosen.randrange(100)),
        # Halves add up without rounding, in any order.
        "real": maybe(chosen.choice([math.nan, chosen.randrange(100) / 2])),
        "text": maybe(chosen.choice("xyz")),
        "exact": maybe(decimal.Decimal(chosen.randrange(1_000)) / 100),
        "flag": maybe(chosen.random() < 0.5),
        "at": dt.datetime.fromtimestamp(second, dt.UTC),
    }


def found_in(rows, aggregates, span=11):
    job = ms.Job("sums")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("key", "other")
    keyed.window(ms.sliding(span, 1)).aggregate(**aggregates, id="w").sink("out", ms.collect("out"))
    return run_job(job, {"in": rows}, rows_per_epoch=50)["out"]


def windows_of(rows, aggregates):
    return Counter(repr(sorted(row.items())) for row in found_in(rows, aggregates))


def counted(monkeypatch):
    """How often windows are put together of cells that lie side by side."""
    taken, of_cells = [], window_sums.WindowSums._paired
    monkeypatch.setattr(window_sums.WindowSums, "_paired", lambda sums, cells: taken.append(1) or of_cells(sums, cells))
    return taken


@pytest.mark.parametrize("name", OF_TYPES)
def test_windows_are_the_same_however_their_bins_lie(name, monkeypatch):
    chosen, taken = random.Random(7), counted(monkeypatch)
    rows = [row_of_types(chosen, second=number // 4) for number in range(300)]
    found = windows_of(rows, {name: OF_TYPES[name]})
    assert taken
    taken.clear()
    monkeypatch.setattr(window_sums, "_ROOM", 0)
    assert windows_of(rows, {name: OF_TYPES[name]}) == found
    assert not taken


@pytest.mark.parametrize("aggregate", [ms.count_distinct("text"), ms.sum("exact"), ms.min("flag")])
def test_what_arrow_cannot_merge_in_pairs_is_looked_for(aggregate, monkeypatch):
    chosen, taken = random.Random(7), counted(monkeypatch)
    assert windows_of([row_of_types(chosen, second) for second in range(30)], {"found": aggregate})
    assert not taken


def large_rows(seconds):
    """Two of these values fit a long, three do not."""
    chosen = random.Random(1)
    fixed = {"key": "a", "other": 0, "whole": 2**62 - 1}
    return [row_of_types(chosen, second) | fixed for second in range(seconds)]


def test_a_sum_that_fits_is_exact():
    totals = Counter(row["total"] for row in found_in(large_rows(2), {"total": ms.sum("whole")}, span=4))
    assert totals == {2**63 - 2: 3, 2**62 - 1: 2}


def test_a_sum_that_does_not_fit_is_refused():
    with pytest.raises(StepFailed, match="does not fit"):
        found_in(large_rows(3), {"total": ms.sum("whole")}, span=4)
