"""Sliding windows of any span: what they come to is what their rows come to."""

import random
from collections import defaultdict

import pytest

import millstream as ms
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


@pytest.mark.parametrize("span", SPANS)
def test_windows_of_any_span_come_to_what_their_rows_do(span):
    rows = rows_of(span)
    job = ms.Job("sums")
    keyed = job.source("in", ms.memory([]), schema="key string, value long, at long").event_time("at").key_by("key")
    keyed.window(ms.sliding(span, 1)).aggregate(**AGGREGATES, id="w").sink("out", ms.collect("out"))
    found = {}
    for row in run_job(job, {"in": rows}, rows_per_epoch=7)["out"]:
        start = round(row["window_start"].timestamp() * 1000)
        assert (row["key"], start) not in found
        found[row["key"], start] = tuple(row[name] for name in AGGREGATES)
    assert found == expected(rows, span)
