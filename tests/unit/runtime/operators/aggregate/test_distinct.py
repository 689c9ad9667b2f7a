"""Distinct values per group: against sets, for every type, and kept in state without growing pages of other keys."""

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import InvalidStep
from millstream.runtime.operators.aggregate.distinct import distinct_values, group_numbers, merged_values

VALUES = {
    "boolean": (pa.bool_(), [True, False, None]),
    "small": (pa.int8(), [-128, 127, None, 0]),
    "close": (pa.int64(), [10**15 + number for number in range(50)] + [None]),
    "apart": (pa.int64(), [2**63 - 1, -(2**63), 0, None, 7]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, math.nan, None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.00"), None]),
    "string": (pa.string(), ["", "b", "grüße", None]),
    "binary": (pa.binary(), [b"", b"\xff", None]),
    "date": (pa.date32(), [dt.date(1900, 1, 1), dt.date(2024, 2, 29), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(1969, 12, 31, tzinfo=dt.UTC), None]),
    "nulls": (pa.int64(), [None]),
}


def same(values):
    """Equal values once, in any order: NaN equals itself here."""
    return sorted({"nan" if value != value else str(value + 0 if value == 0 else value) for value in values})


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("count", [1, 3, 400])
def test_lists_hold_each_value_once(kind, count):
    arrow, known = VALUES[kind]
    chance = random.Random(f"{kind} {count}")
    values = [chance.choice(known) for _ in range(500)]
    groups = [chance.randrange(count) for _ in values]
    mask = np.array([chance.random() < 0.5 for _ in values])
    made = distinct_values(np.array(groups), count, pa.array(values, arrow), [None, mask])
    for lists, chosen in zip(made, (np.ones(len(values), bool), mask), strict=True):
        assert len(lists) == count
        assert lists.type.value_type == arrow
        for group, found in enumerate(lists.to_pylist()):
            rows = zip(groups, values, chosen, strict=True)
            wanted = [value for owner, value, taken in rows if owner == group and taken and value is not None]
            assert len(found) == len(same(wanted))
            assert same(found) == same(wanted)


def test_lists_are_merged_also_where_they_are_a_part_of_an_array():
    lists = pa.array([[9], [1, 2], [2, 3], [], [4], [1]], pa.list_(pa.int64())).slice(1)
    merged = merged_values(np.array([0, 1, 0, 1, 0]), 2, lists)
    assert [sorted(each) for each in merged.to_pylist()] == [[1, 2], [2, 3, 4]]


def test_lists_of_groups_that_are_numbered_in_another_order_than_they_come():
    """Arrow numbers groups by a hash table, which may put one that came later first."""
    lists = pa.array([[1], [], [2, 3]], pa.list_(pa.int64()))
    assert merged_values(np.array([1, 2, 0]), 3, lists).to_pylist() == [[2, 3], [1], []]


def test_nothing_gives_nothing():
    assert next(distinct_values(np.empty(0, np.int64), 0, pa.array([], pa.int64()), [None])).to_pylist() == []
    assert next(distinct_values(np.empty(0, np.int64), 2, pa.array([], pa.string()), [None])).to_pylist() == [[], []]


def test_groups_are_numbered_by_their_rows():
    assert group_numbers(pa.array([[0, 3], [1], [2, 4]])).tolist() == [0, 1, 2, 0, 2]


def job_of(emit="epoch"):
    job = ms.Job("distinct", max_parallelism=2)
    rows = job.source("in", ms.memory([]), schema="k long, v long")
    aggregates = {"n": ms.count_distinct("v"), "even": ms.count_distinct("v", where="v % 2 = 0")}
    rows.key_by("k").aggregate(**aggregates, emit=emit, id="a").sink("out", ms.collect("x"))
    return job


@pytest.mark.parametrize("emit", ["epoch", "row"])
def test_a_key_with_many_values_stays_exact_over_epochs(emit):
    run = Epochs(job_of(emit), parallelism=2, page_bytes=4096)
    held = set()
    for epoch in range(4):
        values = [(number * 7919 + epoch * 1_000) % 6_000 for number in range(2_500)]
        held.update(values)
        made = run.run([{"k": 1, "v": value} for value in values])["out"]
    assert made[-1] == {"k": 1, "n": len(held), "even": sum(value % 2 == 0 for value in held)}


def test_one_large_key_does_not_scatter_the_others():
    """Keys of a page are divided by what they weigh: a large key alone on its page changes nothing for small ones."""
    run = Epochs(job_of(), page_bytes=8_192)
    run.run([{"k": key, "v": key} for key in range(200)] + [{"k": 0, "v": value} for value in range(50_000)])
    run.run([{"k": key, "v": -key} for key in range(200)])
    pages = [key for store in run.stores.values() for key in store if not key.endswith("directory")]
    assert len(pages) <= 32
    made = {row["k"]: row["n"] for row in run.run([{"k": key, "v": key} for key in range(200)])["out"]}
    assert made == {key: 50_000 if key == 0 else 2 for key in range(200)}


def test_conditions_and_values_are_checked():
    job = ms.Job("wrong")
    keyed = job.source("in", ms.memory([]), schema="k long, v long, tags array<long>").key_by("k")
    with pytest.raises(InvalidStep) as caught:
        keyed.aggregate(n=ms.count_distinct("tags"), id="a")
    assert (caught.value.code, caught.value.step) == ("STEP-013", "a")
    with pytest.raises(ms.MillstreamError) as caught:
        keyed.aggregate(n=ms.count(where="v + 1"), id="b")
    assert "boolean" in caught.value.message
    with pytest.raises(ms.MillstreamError) as caught:
        keyed.aggregate(n=ms.sum("v", where="w > 1"), id="c")
    assert caught.value.step == "c"


def test_conditions_belong_to_what_is_stored_and_their_text_does_not():
    def printed(**aggregates):
        job = ms.Job("prints")
        rows = job.source("in", ms.memory([]), schema="k long, v long, w string")
        rows.key_by("k").aggregate(**aggregates, id="a").sink("out", ms.collect("x"))
        return job.compile().partitioned.fingerprint.whole

    first = printed(n=ms.count_distinct("v", where="v > 1"))
    assert first == printed(n=ms.count_distinct("v + 0", where="w = 'x'"))
    assert first != printed(n=ms.count_distinct("v"))
    assert first != printed(n=ms.count_distinct("w", where="v > 1"))
    assert first != printed(n=ms.count("v", where="v > 1"))
    assert printed(n=ms.sum("v")) != printed(n=ms.sum("v", where="v > 1"))
