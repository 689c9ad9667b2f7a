"""Every query gives exactly the oracle's rows, however the run is cut, and the known figures at 100 thousand events."""

import datetime as dt
from pathlib import Path

import pytest
from examples.nexmark.compare import difference
from examples.nexmark.data import tables
from examples.nexmark.oracle import QUERIES as ORACLE_QUERIES
from examples.nexmark.oracle import Oracle
from examples.nexmark.queries.catalog import QUERIES
from examples.nexmark.running import CHECKS
from typer.testing import CliRunner

from millstream.cli.main import app
from millstream.testing import ABORT, ADVANCE_CLOCK, run_job

EVENTS, KNOWN, FEW = 10_000, 100_000, 2000
# Disorder below the allowed delay, and midnight after half a second.
UNEVEN = {"seed": 7, "group": 1000, "base": "2025-12-31T23:59:59.500Z"}
# One event a second: bids stand at the very ends of windows, sessions, patterns and auctions.
SLOW = {"rate": 1}
TIMED = ("q4", "q5", "q6", "q7", "q8", "q9", "q11", "c0", "c1", "c2", "c3")
SMALL_EPOCHS = {"rows_per_epoch": 2000, "parallelism": 3}


@pytest.fixture(scope="module")
def oracle():
    with Oracle(tables(EVENTS)) as found:
        yield found


@pytest.fixture(scope="module")
def uneven_oracle():
    with Oracle(tables(EVENTS, **UNEVEN)) as found:
        yield found


@pytest.fixture(scope="module")
def slow_oracle():
    with Oracle(tables(FEW, **SLOW)) as found:
        yield found


def run(query, out, events, **options):
    result = QUERIES[query].job(events, Path(out), **options).run(local=True)
    assert result.ended == "finished"
    return result, QUERIES[query].result(Path(out))


def test_every_query_of_the_benchmark_is_there():
    assert list(QUERIES) == list(ORACLE_QUERIES) == [*(f"q{n}" for n in range(23)), *(f"c{n}" for n in range(4))]
    assert set(CHECKS) == set(QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_rows_of_the_oracle(query, oracle, tmp_path):
    _, found = run(query, tmp_path, EVENTS)
    assert str(difference(oracle.answer(query), found)) == "equal"


@pytest.mark.parametrize("query", QUERIES)
def test_epochs_disorder_and_midnight_change_nothing(query, uneven_oracle, tmp_path):
    result, found = run(query, tmp_path, EVENTS, requirements=SMALL_EPOCHS, **UNEVEN)
    assert result.epochs >= 5
    assert str(difference(uneven_oracle.answer(query), found)) == "equal"


@pytest.mark.parametrize("query", TIMED)
def test_rows_at_the_very_ends_of_spans_of_time(query, slow_oracle, tmp_path):
    _, found = run(query, tmp_path, FEW, **SLOW)
    assert str(difference(slow_oracle.answer(query), found)) == "equal"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_known_figures(query, tmp_path):
    _, found = run(query, tmp_path, KNOWN)
    assert CHECKS[query].found(found) == CHECKS[query].expected(KNOWN)


def at(seconds):
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def test_a_bid_at_the_end_of_a_window_counts_for_it_too(tmp_path):
    prices = [(1, 70), (9, 100), (10, 100), (11, 500), (20, 100), (21, 60)]
    bids = [{"auction": 1, "bidder": n, "price": price, "extra": "", "dateTime": at(n)} for n, price in prices]
    made = run_job(QUERIES["q7"].job(1, tmp_path), {"bids": bids}, rows_per_epoch=2)
    # The bid after twenty seconds is the highest of its own window, and has not the price of the one before.
    assert sorted(row["bidder"] for row in made["result"]) == [9, 10, 11, 20]


def test_windows_of_the_clock_end_by_the_clock(tmp_path):
    bid = {"bidder": 5, "dateTime": at(0)}
    script = [bid, bid, ADVANCE_CLOCK("10s"), ABORT(), bid, {**bid, "bidder": 6}, ADVANCE_CLOCK("20s"), bid]
    made = run_job(QUERIES["q12"].job(1, tmp_path), {"bids": script})["result"]
    made.sort(key=lambda row: (row["bidder"], row["starttime"]))
    assert [(row["bidder"], row["bid_count"]) for row in made] == [(5, 2), (5, 1), (5, 1), (6, 1)]
    assert all(row["endtime"] - row["starttime"] == dt.timedelta(seconds=10) for row in made)


def test_the_command_compares_and_names_what_it_found():
    done = CliRunner().invoke(app, ["nexmark", "run", "--queries", "q2,q17", "--events", "3000", "--local"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["q2", "q17"]
    assert all(line.endswith("exact") for line in lines[1:3])
    assert lines[-1] == "2 of 2 queries exact over 3,000 events"


def test_the_command_fails_when_a_result_differs(monkeypatch):
    monkeypatch.setitem(CHECKS, "q2", CHECKS["q0"])
    done = CliRunner().invoke(app, ["nexmark", "run", "--queries", "q2", "--events", "100000", "--local"])
    assert done.exit_code == 1
    assert "EXPECTED 92000, 666274821949" in done.output


def test_the_command_refuses_a_query_that_does_not_exist():
    done = CliRunner().invoke(app, ["nexmark", "run", "--queries", "q2,q99", "--local"])
    assert done.exit_code == 2
    assert "q99" in done.output
