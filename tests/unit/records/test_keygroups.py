import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import InvalidSchema
from millstream.plan.explain import key_group_ranges
from millstream.records.key_groups import key_group, owner, page_of, stable_hash

UTC = pa.timestamp("us", tz="UTC")
COLUMNS = {
    "ints": [pa.array([0, 1, -1, 2**63 - 1, None], pa.int64())],
    "bools": [pa.array([True, False, None])],
    "strings": [pa.array(["", "a", "abcdefgh", "abcdefghi", "grüße", None])],
    "binary": [pa.array([b"", b"\x00", b"\x00\x00", None])],
    "floats": [pa.array([0.0, 1.5, float("inf"), float("nan"), None])],
    "decimals": [pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), None], pa.decimal128(10, 2))],
    "dates": [pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31), None])],
    "timestamps": [pa.array([dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC), None], UTC)],
    "two": [pa.array(["a", "a", None, None]), pa.array([1, None, 1, None], pa.int64())],
}
GOLDEN = {
    "ints": ["7b0d40a84d02608c", "aa1a99f11dc52dab", "d51733a914813a57", "26619803af80e4d5", "670b3c197f7036a7"],
    "bools": ["aa1a99f11dc52dab", "7b0d40a84d02608c", "670b3c197f7036a7"],
    "strings": [
        "7b0d40a84d02608c",
        "30beddfef3b5f4fc",
        "e10cc409935ebc61",
        "e748484a88519ded",
        "78d9c8fbda1be0bc",
        "670b3c197f7036a7",
    ],
    "binary": ["7b0d40a84d02608c", "ef1cb1f041602961", "950185fdd82b7bcb", "670b3c197f7036a7"],
    "floats": ["7b0d40a84d02608c", "dd0f0f6f6e1517fb", "f8c3f04a585c81b3", "3f0d182989c8bfe7", "670b3c197f7036a7"],
    "decimals": ["295434e9fe4de235", "f59f5c578e429739", "130902e894c85b10", "670b3c197f7036a7"],
    "dates": ["aa1a99f11dc52dab", "d51733a914813a57", "670b3c197f7036a7"],
    "timestamps": ["925e31df2ebbc4b5", "670b3c197f7036a7"],
    "two": ["984cfbb3319c5a4b", "ab0b1ad5469d5ba8", "d3f6da01ac8e0824", "126f847d5664bab6"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_hash_never_changes(name):
    """State and savepoints depend on these numbers: a change of them is a change of format."""
    assert [f"{value:016x}" for value in stable_hash(COLUMNS[name]).tolist()] == GOLDEN[name]


def one(values, kind=None):
    return stable_hash([pa.array(values, kind)]).tolist()


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=20),
    cut=st.integers(0, 20),
    start=st.integers(0, 5),
)
def test_slices_offsets_and_chunks_do_not_matter(values, cut, start):
    whole = one(values, pa.string())
    padded = pa.array(["padding", None, "x" * 30, "", "é"][:start] + values, pa.string()).slice(start)
    assert one(values, pa.string()) == stable_hash([padded]).tolist()
    chunked = pa.chunked_array([pa.array(values[:cut], pa.string()), pa.array(values[cut:], pa.string())])
    assert stable_hash([chunked]).tolist() == whole
    assert [one([value], pa.string())[0] for value in values] == whole
    as_bytes = [None if value is None else value.encode() for value in values]
    assert one(as_bytes, pa.binary()) == whole


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), min_size=1))
def test_widths_of_integers_do_not_matter(values):
    assert one(values, pa.int32()) == one(values, pa.int64())
    small = [None if value is None else value % 100 for value in values]
    assert one(small, pa.int8()) == one(small, pa.int64())


@settings(max_examples=80, deadline=None)
@given(st.decimals(min_value=-(10**9), max_value=10**9, places=8), st.integers(8, 18), st.integers(20, 38))
def test_the_scale_of_decimals_does_not_matter(value, scale, precision):
    assert one([value], pa.decimal128(38, 8)) == one([value], pa.decimal128(max(precision, 10 + scale), scale))


def test_small_and_zero_decimals_of_any_scale_are_one_key():
    for text in ("0", "0.0000001", "-0.00000001", "1E-10"):
        assert len({one([Decimal(text)], pa.decimal128(38, scale))[0] for scale in (10, 12, 18, 30)}) == 1
    assert one([Decimal(10)], pa.decimal128(5, 0)) == one([Decimal(10)], pa.decimal128(7, 2))
    assert one([Decimal(10)], pa.decimal128(5, 0)) != one([Decimal(1)], pa.decimal128(5, 0))
    assert one([Decimal("1E-10")], pa.decimal128(38, 20)) != one([Decimal("1E-1")], pa.decimal128(38, 20))


def test_one_zero_and_one_nan():
    other = np.frombuffer(np.array([0x7FF8000000000001], np.uint64).tobytes(), np.float64)[0]
    assert len(set(one([0.0, -0.0]))) == 1
    assert len(set(one([float("nan"), -float("nan"), other]))) == 1
    assert one([1.5], pa.float32()) == one([1.5], pa.float64())


def test_null_is_a_value_of_its_own():
    assert len(set(one(["", None, "\x00"]))) == 3
    assert len(set(one([0, None], pa.int64()))) == 2
    a, null = pa.array(["a"]), pa.array([None], pa.string())
    hashes = [stable_hash(columns).tolist()[0] for columns in ([a], [a, null], [null, a], [null, null], [null], [a, a])]
    assert len(set(hashes)) == len(hashes)


def test_neighbouring_columns_do_not_run_together():
    left = stable_hash([pa.array(["ab", "a"]), pa.array(["c", "bc"])]).tolist()
    assert left[0] != left[1]


def test_keys_spread_over_groups_and_pages():
    hashes = stable_hash([pa.array(range(100_000))])
    counts = np.bincount(key_group(hashes, 128), minlength=128)
    assert counts.min() > 0.8 * counts.mean()
    mine = hashes[key_group(hashes, 128) == 5]
    pages = np.bincount(page_of(mine, np.full(len(mine), 8, np.int64)), minlength=8)
    assert len(pages) == 8
    assert pages.min() > 0.6 * pages.mean()


def test_doubling_the_pages_splits_each_page_in_two():
    hashes = stable_hash([pa.array(range(1000))])
    four = page_of(hashes, np.full(1000, 4, np.int64))
    eight = page_of(hashes, np.full(1000, 8, np.int64))
    assert (eight % 4 == four).all()
    assert (page_of(hashes, np.ones(1000, np.int64)) == 0).all()


@pytest.mark.parametrize("groups", [1, 2, 7, 128, 130])
def test_owners_hold_contiguous_even_ranges(groups):
    every = np.arange(groups)
    for parallelism in range(1, groups + 1):
        owners = owner(every, groups, parallelism)
        assert (np.diff(owners) >= 0).all()
        counts = np.bincount(owners, minlength=parallelism)
        assert len(counts) == parallelism
        assert counts.max() - counts.min() <= 1

        class Plan:
            key_groups = groups

        Plan.parallelism = parallelism
        ranges = key_group_ranges(Plan)
        assert [(owners[first], owners[end - 1]) for first, end in ranges] == [(i, i) for i in range(parallelism)]


def test_nested_keys_are_refused():
    with pytest.raises(InvalidSchema) as caught:
        stable_hash([pa.array([[1]])])
    assert caught.value.code == "SCHEMA-010"


def test_no_rows_give_no_hashes():
    for kind in (pa.string(), pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.bool_(), UTC, pa.date32(), pa.binary()):
        assert one([], kind) == []
