"""Ranges of a key: every row once, whatever the keys are like and whatever happens to rows in between."""

import itertools
import random
from collections import Counter

import pytest
from tests.unit.connectors.jdbc.databases import everything

import millstream as ms
from millstream.contract.source import Credit
from millstream.errors import CheckpointRefused, InvalidStep, StepFailed

CREDITS = (1, 2, 7, 40, 1000)


def table(database, columns, rows=()):
    database.execute(f"CREATE TABLE t ({columns})")
    if rows:
        database.insert("t", rows)
    return database


def values(rows, name):
    return Counter(row[name] for row in rows)


# Keys


@pytest.mark.parametrize("credit", CREDITS)
def test_an_empty_table_ends_at_once(database, open_source, credit):
    table(database, f"id {database.long} PRIMARY KEY")
    opened = open_source(ms.jdbc_table(database.url, "t"))
    rows, path = everything(opened, credit)
    assert rows == []
    assert path == [opened.initial()]
    assert opened.advance(path[0], credit).lag == 0


@pytest.mark.parametrize("credit", CREDITS)
def test_one_row(database, open_source, credit):
    table(database, f"id {database.long} PRIMARY KEY", [(5,)])
    opened = open_source(ms.jdbc_table(database.url, "t"))
    rows, path = everything(opened, credit)
    assert rows == [{"id": 5}]
    assert len(path) == 2


@pytest.mark.parametrize("credit", CREDITS)
def test_rows_of_one_key_stay_together(database, open_source, credit):
    keys = [number // 13 for number in range(60)]
    table(database, f"k {database.long} NOT NULL, n {database.long}", [(k, n) for n, k in enumerate(keys)])
    opened = open_source(ms.jdbc_table(database.url, "t", key="k"))
    rows, path = everything(opened, credit)
    assert values(rows, "n") == Counter(range(60))
    for start, end in itertools.pairwise(path):
        groups = Counter(row["k"] for row in opened.read(start, end))
        assert all(count == keys.count(k) for k, count in groups.items()), "a key is never cut"


@pytest.mark.parametrize("credit", CREDITS)
def test_all_columns_of_a_key_count(database, open_source, credit):
    drawn = random.Random(credit)
    rows = {(drawn.randrange(3), f"x{drawn.randrange(4)}", drawn.randrange(100)) for _ in range(90)}
    columns = f"a {database.long} NOT NULL, b {database.text} NOT NULL, c {database.long} NOT NULL"
    table(database, f"{columns}, PRIMARY KEY (a, b, c)", sorted(rows))
    read, _ = everything(open_source(ms.jdbc_table(database.url, "t", chunk_rows=5)), credit)
    assert [tuple(row.values()) for row in read] == sorted(rows), "in the order of the key, each once"


def test_a_primary_key_is_taken_in_its_own_order(database, open_source):
    table(database, f"a {database.long}, b {database.long}, PRIMARY KEY (b, a)", [(1, 9), (2, 8), (3, 9)])
    opened = open_source(ms.jdbc_table(database.url, "t"))
    assert [column[0] for column in opened.initial()["key"]] == ["b", "a"]
    assert [row["a"] for row in everything(opened)[0]] == [2, 1, 3]


def test_a_key_need_not_be_read(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY, n {database.long}", [(n, n * 2) for n in range(20)])
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t"), schema="n long"), 3)
    assert rows == [{"n": n * 2} for n in range(20)]


def test_numbers_of_every_size_are_keys(database, open_source):
    keys = [-(2**63), -1, 0, 1, 2**53 + 1, 2**53 + 2, 2**63 - 1]
    table(database, f"id {database.long} PRIMARY KEY", [(key,) for key in keys])
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t")), 1)
    assert [row["id"] for row in rows] == keys


def test_fractions_are_keys(database, open_source):
    drawn = random.Random(5)
    keys = sorted({drawn.uniform(-1e9, 1e9) for _ in range(50)} | {0.1 + 0.2, 0.3, 1e-300, -1e300, 5e-324})
    table(database, f"x {database.real} NOT NULL", [(key,) for key in keys])
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t", key="x")), 3)
    assert [row["x"] for row in rows] == keys


def test_a_query_may_have_any_shape(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY, n {database.long}", [(n, n % 5) for n in range(50)])
    query = (
        "WITH big AS (SELECT * FROM t WHERE id > 9) SELECT n, count(*) AS many, max(id) AS last FROM big GROUP BY n;"
    )
    rows, _ = everything(open_source(ms.jdbc_query(database.url, query, key="last"), schema="n long, many long"), 2)
    assert rows == [{"n": n, "many": 8} for n in range(5)]


# What happens in between


def test_the_bound_is_frozen_when_the_source_first_starts(database, open_source, tmp_path):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(10)])
    spec = ms.jdbc_table(database.url, "t")
    first = open_source(spec, folder=tmp_path / "log")
    first.initial()
    database.insert("t", [(n,) for n in range(10, 20)])
    rows, _ = everything(open_source(spec, folder=tmp_path / "log", token=2))
    assert [row["id"] for row in rows] == list(range(10))


def test_rows_that_vanish_or_change_between_boundary_and_read_come_once_or_not_at_all(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY, n {database.long}", [(n, 0) for n in range(40)])
    opened = open_source(ms.jdbc_table(database.url, "t", chunk_rows=5))
    start, rows = opened.initial(), []
    while True:
        advance = opened.advance(start, 10)
        if advance.position != start:
            at = len(rows)
            # Behind the boundary, at it, and in what is read now.
            database.execute(f"DELETE FROM t WHERE id IN ({at + 1}, {at + 9}, {at + 13})")
            database.execute(f"UPDATE t SET n = n + 1 WHERE id >= {at}")
            rows += opened.read(start, advance.position)
            start = advance.position
        if advance.finished:
            break
    seen = Counter(row["id"] for row in rows)
    assert max(seen.values()) == 1
    left = {row[0] for row in database.execute("SELECT id FROM t")}
    assert left <= seen.keys(), "what is still there was read"


def test_a_table_that_is_emptied_ends(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(20)])
    opened = open_source(ms.jdbc_table(database.url, "t", chunk_rows=4))
    opened.initial()
    database.execute("DELETE FROM t")
    rows, path = everything(opened, 8)
    assert rows == []
    assert path[-1]["done"]


def test_a_run_goes_on_behind_where_another_ended(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(10)])
    spec = ms.jdbc_table(database.url, "t")
    _, path = everything(open_source(spec))
    database.insert("t", [(n,) for n in range(10, 15)])
    # Another lineage decides its own bound, and starts where the last one ended.
    rows, later = everything(open_source(spec), start=path[-1])
    assert [row["id"] for row in rows] == list(range(10, 15))
    assert everything(open_source(spec), start=later[-1])[0] == []


def test_a_run_that_was_cut_off_first_reaches_its_own_bound(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(10)])
    spec = ms.jdbc_table(database.url, "t")
    _, path = everything(open_source(spec), 4)
    database.insert("t", [(n,) for n in range(10, 15)])
    rows, later = everything(open_source(spec), 100, start=path[1])
    assert [row["id"] for row in rows] == list(range(4, 15))
    assert later[1]["upper"] == path[0]["upper"]


def test_a_bound_below_what_was_read_reads_nothing(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(10)])
    spec = ms.jdbc_table(database.url, "t")
    _, path = everything(open_source(spec))
    database.execute("DELETE FROM t WHERE id > 3")
    assert everything(open_source(spec), start=path[-1])[0] == []


def test_another_key_is_refused(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY, n {database.long} NOT NULL", [(1, 1)])
    _, path = everything(open_source(ms.jdbc_table(database.url, "t")))
    other = open_source(ms.jdbc_table(database.url, "t", key="n"))
    with pytest.raises(CheckpointRefused, match="JDBC-035"):
        other.advance(path[-1], 5)


# Nulls


def with_nulls(database):
    rows = [(n if n % 3 else None, None if n % 5 == 0 else n, n) for n in range(30)]
    return table(database, f"a {database.long}, b {database.long}, n {database.long}", rows)


def test_a_null_in_the_key_is_refused_at_the_start(database, open_source):
    with_nulls(database)
    with pytest.raises(InvalidStep, match=r"JDBC-034.*null in the key \(a, b\).*nulls='read'"):
        open_source(ms.jdbc_table(database.url, "t", key=["a", "b"])).initial()


@pytest.mark.parametrize("credit", CREDITS)
def test_rows_without_a_key_are_read_once_where_that_is_wanted(database, open_source, credit):
    with_nulls(database)
    opened = open_source(ms.jdbc_table(database.url, "t", key=["a", "b"], nulls="read", chunk_rows=4))
    rows, path = everything(opened, credit)
    assert values(rows, "n") == Counter(range(30))
    first = opened.read(path[0], path[1])
    assert all(row in first for row in rows if row["a"] is None or row["b"] is None), "in the first epoch"


def test_rows_without_a_key_alone(database, open_source):
    table(database, f"a {database.long}, n {database.long}", [(None, 1), (None, 2)])
    opened = open_source(ms.jdbc_table(database.url, "t", key="a", nulls="read"))
    rows, path = everything(opened)
    assert values(rows, "n") == Counter([1, 2])
    assert len(path) == 2


def test_a_key_that_may_be_null_and_is_not_is_fine(database, open_source):
    table(database, f"a {database.long}", [(1,), (2,)])
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t", key="a")))
    assert rows == [{"a": 1}, {"a": 2}]


# How much at once


def test_splits_are_as_many_as_can_be_read_at_once(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(100)])
    opened = open_source(ms.jdbc_table(database.url, "t", count="exact"), parallelism=4)
    start = opened.initial()
    advance = opened.advance(start, 40)
    while advance.position["rows"] < 40:  # the thread may still be at it
        advance = opened.advance(start, 40)
    assert [split.rows for split in opened.splits(start, advance.position)] == [10, 10, 10, 10]
    assert advance.lag == 60


def test_a_range_has_no_more_bytes_than_memory_is_for(database, open_source, monkeypatch):
    from millstream.connectors.jdbc.reading import enumerator

    monkeypatch.setattr(enumerator, "CHUNK_BYTES", 3000)
    rows = [(n, "x" * 290) for n in range(50)]
    table(database, f"id {database.long} PRIMARY KEY, wide {database.text}", rows)
    opened = open_source(ms.jdbc_table(database.url, "t"))
    read, path = everything(opened, 1000)
    assert len(read) == 50
    assert len(opened.splits(path[0], path[-1])) >= 5


def test_a_credit_of_bytes_counts_by_the_width_of_rows(database, open_source):
    table(database, f"id {database.long} PRIMARY KEY, wide {database.text}", [(n, "x" * 92) for n in range(50)])
    opened = open_source(ms.jdbc_table(database.url, "t"))
    start = opened.initial()
    advance = opened.enumerator.advance(start, Credit(1000, bytes=1000))
    while advance.position == start:
        advance = opened.enumerator.advance(start, Credit(1000, bytes=1000))
    assert advance.position["rows"] == 10


@pytest.mark.parametrize("count", ["estimate", "exact", "none"])
def test_how_much_waits_is_told(database, open_source, count):
    table(database, f"id {database.long} PRIMARY KEY", [(n,) for n in range(100)])
    if database.name == "postgres":
        database.execute("ANALYZE t")
    opened = open_source(ms.jdbc_table(database.url, "t", count=count, chunk_rows=10))
    start, told = opened.initial(), []
    while True:
        advance = opened.advance(start, 20)
        if advance.position != start:
            told.append((advance.position["rows"], advance.lag))
        start = advance.position
        if advance.finished:
            break
    assert told[-1][1] == 0
    assert all(lag is None if count == "none" else lag == 100 - rows for rows, lag in told[:-1])


# What cannot be


def test_a_table_without_a_primary_key_needs_a_key(database, open_source):
    table(database, f"a {database.long}")
    with pytest.raises(InvalidStep, match=r"JDBC-033.*no primary key.*key=\[\.\.\.\].*key=\[\]"):
        open_source(ms.jdbc_table(database.url, "t")).initial()


def test_a_key_is_a_column(database, open_source):
    table(database, f"a {database.long}")
    with pytest.raises(InvalidStep, match=r"JDBC-033.*'b' is not a column.*known: a"):
        open_source(ms.jdbc_table(database.url, "t", key="b")).initial()


def test_a_table_that_is_not_there_is_named(database, open_source):
    with pytest.raises(StepFailed, match=r"JDBC-013.*nothing"):
        open_source(ms.jdbc_table(database.url, "nothing", key="a"), schema="a long").initial()


def test_without_a_key_everything_is_one_split(database, open_source):
    table(database, f"a {database.long}", [(n,) for n in range(50)])
    opened = open_source(ms.jdbc_table(database.url, "t", key=()))
    start = opened.initial()
    advance = opened.advance(start, 1)
    assert advance.finished
    assert len(opened.splits(start, advance.position)) == 1
    assert values(opened.read(start, advance.position), "a") == Counter(range(50))
