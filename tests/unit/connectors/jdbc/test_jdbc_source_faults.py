"""Servers that go away, take too long or say no: rows come once, or an error says what happened."""

import itertools
import sys
import time

import pytest
from tests.servers.proxy import Proxy
from tests.unit.connectors.jdbc.databases import everything

import millstream as ms
from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading import opening
from millstream.connectors.jdbc.reading.postgres import PostgresProbe
from millstream.connectors.jdbc.reading.postgres_rows import PostgresRows
from millstream.connectors.jdbc.reading.statements import Statement
from millstream.database.url import address_of
from millstream.errors import ExternalFailure, InvalidStep, StepFailed

NAP = """
CREATE FUNCTION nap(number bigint, seconds double precision) RETURNS boolean LANGUAGE plpgsql STABLE
AS 'BEGIN PERFORM pg_sleep(seconds); RETURN true; END'"""


@pytest.fixture
def proxy(postgres, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 5.0)
    proxy = Proxy(postgres.port)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(postgres, postgres_db, proxy):
    """The url of a table with 61 rows, behind a proxy."""
    postgres_db.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    postgres_db.execute("INSERT INTO t SELECT g, 'n' || g FROM generate_series(1, 61) g")
    return postgres.url.replace(f":{postgres.port}/", f":{proxy.port}/")


CALLS = {
    "describing": b"LIMIT 0",
    "types": b"typcollation",
    "primary key": b"indisprimary",
    "highest key": b"DESC LIMIT 1",
    "estimate": b"EXPLAIN",
    "width": b"octet_length",
    "boundary": b"OFFSET",
    "rest": b"AS counted",
    "settings": b"default_transaction_read_only",
    "rows": b"COPY (SELECT q.",
}


@pytest.mark.parametrize("text", CALLS.values(), ids=list(CALLS))
def test_a_reply_that_is_lost_is_asked_for_again(behind, proxy, open_source, text):
    opened = open_source(ms.jdbc_table(behind, "t", chunk_rows=20), schema="id long, name string")
    proxy.lose_reply_to(text)
    rows, _ = everything(opened, 30)
    assert proxy.lost.is_set(), "something was lost"
    assert [row["id"] for row in rows] == list(range(1, 62))


def test_a_cursor_that_is_lost_is_an_external_failure(behind, proxy, open_source):
    opened = open_source(ms.jdbc_query(behind, "SELECT * FROM t"))
    start = opened.initial()
    end = opened.advance(start, 10).position
    proxy.lose_reply_to(b"FETCH FORWARD")
    with pytest.raises(ExternalFailure, match="JDBC-002") as failed:
        opened.read(start, end)
    assert failed.value.retry == "backoff"
    assert len(opened.read(start, end)) == 61, "and the task is tried again"


def test_a_server_that_stays_away_fails_the_next_ask_and_is_asked_again(behind, proxy, open_source, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 0.5)
    opened = open_source(ms.jdbc_table(behind, "t", chunk_rows=20))
    start = opened.initial()
    with proxy.away(), pytest.raises(ExternalFailure, match=r"JDBC-002.*does not answer"):
        _until_moved(opened, start)
    assert everything(opened, 30, start=start)[0][-1]["id"] == 61


def _until_moved(opened, start, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if opened.advance(start, 30).position != start:
            return
    raise AssertionError("nothing happened")


def test_a_password_is_in_no_error(proxy, open_source, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 0.1)
    url = f"postgresql://me:hunter2@127.0.0.1:{proxy.port}/d"
    key = [["id", "pg_catalog.int8", "", False]]
    body = {"kind": "range", "key": key, "forms": {}, "low": None, "high": ["5"], "rows": 1}
    body |= {"job": "j", "step": "in", "server": ""}
    opened = open_source(ms.jdbc_table(url, "t", key="id"), schema="id long")
    with proxy.away():
        for call in (opened.initial, lambda: list(opened._reader().read(body))):
            with pytest.raises(ExternalFailure) as failed:
                call()
            assert "hunter2" not in str(failed.value) + repr(failed.value.__cause__) + repr(failed.value.fields())


# Writing


def test_a_query_does_not_let_the_next_one_write(postgres_db):
    """The session's own setting is one that a query may change."""
    login = Login(address=address_of(postgres_db.url), password_env=None, job="j", step="in", patience=1.0)
    options = {"table": None, "query": "SELECT 1 AS id"}
    probe = PostgresProbe(options, login, timeout=5000)
    probe.fetch(Statement("SELECT set_config('default_transaction_read_only', 'off', false)"))
    with pytest.raises(StepFailed, match="read-only transaction"):
        probe.fetch(Statement("SELECT lo_create(0)"))
    probe.close()


# Time-outs


@pytest.fixture
def slow(postgres_db):
    postgres_db.execute(NAP)
    postgres_db.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    postgres_db.execute("INSERT INTO t SELECT generate_series(1, 300)")
    return postgres_db


def test_a_range_that_takes_too_long_is_read_in_smaller_ones(slow, open_source, monkeypatch):
    asked = []
    table = PostgresRows.table
    monkeypatch.setattr(PostgresRows, "table", lambda *given: asked.append(given[1].text) or table(*given))
    query = "SELECT id, nap(id, 0.002) AS slow FROM t"
    opened = open_source(
        ms.jdbc_query(slow.url, query, key="id", timeout="400ms"), schema="id long, slow boolean", parallelism=1
    )
    rows, path = everything(opened, 1000)
    assert [row["id"] for row in rows] == list(range(1, 301))
    assert len(opened.splits(path[0], path[-1])) == 1
    assert len(asked) >= 3, "one that was given up, and its halves"


def test_a_boundary_that_takes_too_long_makes_smaller_steps(slow, open_source):
    query = "SELECT id FROM t WHERE nap(id, 0.002)"
    opened = open_source(ms.jdbc_query(slow.url, query, key="id", timeout="400ms", nulls="read"), parallelism=1)
    rows, path = everything(opened, 1000)
    assert sorted(row["id"] for row in rows) == list(range(1, 301))
    ranges = [
        split for pair in itertools.pairwise(path) for split in opened.splits(*pair) if split.body["kind"] == "range"
    ]
    assert len(ranges) > 1


def test_what_is_never_answered_in_time_is_an_external_failure(slow, open_source):
    query = "SELECT id FROM t WHERE nap(id, 60)"
    opened = open_source(ms.jdbc_query(slow.url, query, key="id", timeout="200ms"))
    with pytest.raises(ExternalFailure, match=r"JDBC-036.*timeout='200ms'.*index") as failed:
        opened.initial()
    assert failed.value.retry == "backoff"


def test_a_cursor_has_the_time_for_each_piece(slow, open_source):
    query = "SELECT id FROM t WHERE nap(id, CASE WHEN id = 200 THEN 60 ELSE 0 END)"
    opened = open_source(ms.jdbc_query(slow.url, query, timeout="200ms", count="none"))
    start = opened.initial()
    with pytest.raises(ExternalFailure, match=r"JDBC-036.*timeout='200ms'"):
        opened.read(start, opened.advance(start, 10).position)


def test_closing_ends_what_is_asked(slow, open_source):
    query = "SELECT id FROM t WHERE nap(id, CASE WHEN id > 150 AND id < 250 THEN 600 ELSE 0 END)"
    opened = open_source(ms.jdbc_query(slow.url, query, key="id", nulls="read"), parallelism=1)
    start = opened.initial()
    opened.advance(start, 200)
    asking = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millstream contract/in'"
    assert slow.execute(asking) == [(1,)]
    opened.close()
    until = time.monotonic() + 20
    while slow.execute(asking) != [(0,)]:
        assert time.monotonic() < until, "the statement goes on"


# What a source may not do


def test_nothing_is_written(slow, open_source):
    slow.execute("CREATE FUNCTION add_row() RETURNS bigint LANGUAGE sql AS 'INSERT INTO t VALUES (-1) RETURNING id'")
    opened = open_source(
        ms.jdbc_query(slow.url, "SELECT id, add_row() AS more FROM t", key="id"), schema="id long, more long"
    )
    with pytest.raises(StepFailed, match=r"JDBC-013.*read-only transaction"):
        everything(opened)
    assert slow.execute("SELECT count(*) FROM t WHERE id < 0") == [(0,)]


def test_what_the_database_refuses_in_a_row_is_told(slow, open_source):
    opened = open_source(ms.jdbc_query(slow.url, "SELECT id, 1 / (id - 150) AS x FROM t", key="id"))
    with pytest.raises(StepFailed, match=r"JDBC-013.*division by zero") as failed:
        everything(opened)
    assert "SELECT" not in failed.value.found


def test_a_library_that_is_missing_is_named_with_the_command(monkeypatch, open_source):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(InvalidStep, match=r"JDBC-037.*pip install 'millstream\[sql\]'"):
        open_source(ms.jdbc_table("postgresql://me@127.0.0.1:1/d", "t", key="id"), schema="id long")
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(InvalidStep, match=r"JDBC-037.*pip install 'millstream\[mysql\]'"):
        open_source(ms.jdbc_table("mysql://me@127.0.0.1:1/d", "t", key="id"), schema="id long")
