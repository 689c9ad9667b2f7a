"""The oracle gives the known answers, and its comparison sees what differs."""

import collections
import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from examples.nexmark.compare import difference, fingerprint
from examples.nexmark.data import dataset, tables
from examples.nexmark.golden import GOLDEN
from examples.nexmark.oracle import QUERIES, Oracle

EVENTS = 100_000


@pytest.fixture(scope="module")
def oracle():
    with Oracle(tables(EVENTS)) as found:
        yield found


def test_every_query_has_an_answer():
    assert [f"q{n}" for n in range(23)] + [f"c{n}" for n in range(4)] == list(QUERIES)
    assert set(QUERIES) - set(GOLDEN) == {"q12"}


@pytest.mark.parametrize("query", GOLDEN)
def test_the_answer_is_the_known_one(oracle, query):
    golden = GOLDEN[query]
    assert golden.found(oracle.answer(query)) == golden.expected(EVENTS)


def test_windows_of_the_processing_time_lose_no_bid(oracle):
    answer = oracle.answer("q12")
    assert sum(answer["bid_count"].to_pylist()) == 92_000
    assert len(set(answer["bidder"].to_pylist())) == answer.num_rows == 1928


def test_days_change_at_midnight_utc():
    late = {"base": "2025-12-31T23:59:50Z"}
    with Oracle(tables(200_000, **late)) as oracle:
        days = {row["day"]: row["total_bids"] for row in oracle.answer("q15").to_pylist()}
        assert set(days) == {"2025-12-31", "2026-01-01"}
        assert sum(days.values()) == 184_000
        minutes = collections.Counter(oracle.answer("q10")["hm"].to_pylist())
        assert minutes == {"23:59": days["2025-12-31"], "00:00": days["2026-01-01"]}
        assert set(oracle.answer("q14")["bidTimeType"].to_pylist()) == {"nightTime"}


@pytest.mark.parametrize("query", ["q4", "q6", "q9", "q11", "q17", "c0", "c3"])
def test_the_order_of_arrival_does_not_matter(oracle, query):
    shuffled = {kind: table.take(pa.array(range(table.num_rows - 1, -1, -1))) for kind, table in tables(EVENTS).items()}
    with Oracle(shuffled) as other:
        assert not difference(oracle.answer(query), other.answer(query))


def test_a_data_set_is_written_once(tmp_path):
    folders = dataset(tmp_path, 500, seed=3)
    file = folders["bid"] / "part-00000.parquet"
    written = file.stat().st_mtime_ns
    assert dataset(tmp_path, 500, seed=3) == folders
    assert file.stat().st_mtime_ns == written
    dataset(tmp_path, 500, seed=4)
    assert file.stat().st_mtime_ns != written


def test_a_comparison_names_missing_and_surplus_rows():
    at = dt.datetime(2026, 1, 1)
    expected = pa.table({"a": [1, 1, 2], "at": pa.array([at] * 3, pa.timestamp("us")), "d": [Decimal("1.50")] * 3})
    rows = [{"d": Decimal("1.50"), "a": a, "at": at.replace(tzinfo=dt.UTC)} for a in (2, 1, 1)]
    assert not difference(expected, rows)
    assert fingerprint(expected) == fingerprint(rows) == fingerprint(expected.take([2, 0, 1]))
    found = difference(expected, [*rows[:2], {**rows[0], "a": 3}])
    milliseconds = 1_767_225_600_000
    assert found.missing == {(1, milliseconds, "1.50"): 1}
    assert found.extra == {(3, milliseconds, "1.50"): 1}
    assert "1 rows missing, 1 rows too many" in str(found)
    assert fingerprint(expected) != fingerprint(expected.slice(0, 2))
