"""Names and texts that would mean something else if they were not quoted, and orders that are not those of bytes."""

import contextlib
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.connectors.jdbc.databases import everything, options_of, parts_of

import millstream as ms
from millstream.connectors.jdbc.reading.preview import found_schema
from millstream.errors import InvalidSchema, StepFailed

NASTY = [
    "'",
    "''",
    "'; DROP TABLE t; --",
    "\\",
    "\\'; DROP TABLE t; --",
    "\\\\'",
    "$$; DROP TABLE t; $$",
    "a\nb",
    "/* */",
    "%s",
    "{x}",
    "?",
    "$1",
    "é",
    "\U0001f600",
    "",
    " ",
    "a ",
    "A",
    "a",
    "\x01",
    "x'00'",
    "NULL",
]
NAMES = ["q", 'a"b', "a'b", "a b", "select", "Größe", "q.id", "a`b", "x; DROP TABLE t", "{x}", "%s", "?", "$1", '"']
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("credit", [1, 4, 1000])
def test_texts_that_look_like_sql_are_keys_like_others(database, open_source, credit):
    database.execute(f"CREATE TABLE t (name {database.text} PRIMARY KEY, n {database.long})")
    database.insert("t", [(name, n) for n, name in enumerate(NASTY)])
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t")), credit)
    assert sorted(row["n"] for row in rows) == list(range(len(NASTY)))
    assert {row["name"] for row in rows} == set(NASTY)
    assert database.execute("SELECT count(*) FROM t") == [(len(NASTY),)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(st.tuples(TEXT, TEXT), min_size=1, max_size=12), credit=st.integers(1, 5))
def test_any_text_is_a_key(database, open_source, names, credit):
    database.execute("DROP TABLE IF EXISTS t")
    database.execute(f"CREATE TABLE t (a {database.text}, b {database.text}, PRIMARY KEY (a, b))")
    database.insert("t", sorted(names))
    rows, _ = everything(open_source(ms.jdbc_table(database.url, "t", nulls="read")), credit)
    assert sorted(tuple(row.values()) for row in rows) == sorted(names)


def test_texts_with_nul_are_keys_of_sqlite(sqlite_db, open_source):
    names = ["a", "a\0", "a\0b", "\0"]
    sqlite_db.execute("CREATE TABLE t (name TEXT PRIMARY KEY)")
    sqlite_db.insert("t", [(name,) for name in names])
    rows, _ = everything(open_source(ms.jdbc_table(sqlite_db.url, "t")), 1)
    assert len(rows) == 4


@pytest.mark.parametrize("name", NAMES)
def test_names_that_look_like_sql_are_names_like_others(database, open_source, name):
    other = f"{name} 2"
    columns = f"{quoted(name)} {database.long} PRIMARY KEY, {quoted(other)} {database.text}"
    database.execute(f"CREATE TABLE {quoted(name)} ({columns})")
    database.insert(
        quoted(name).replace("%", "%%") if database.name == "postgres" else quoted(name), [(1, "x"), (2, "y")]
    )
    rows, _ = everything(open_source(ms.jdbc_table(database.url, quoted(name))), 1)
    assert rows == [{name: 1, other: "x"}, {name: 2, other: "y"}]


def test_a_table_may_lie_in_a_schema(postgres_db, open_source):
    postgres_db.execute('CREATE SCHEMA "odd.schema"')
    postgres_db.execute('CREATE TABLE "odd.schema"."T" (id int PRIMARY KEY)')
    postgres_db.execute('INSERT INTO "odd.schema"."T" VALUES (1)')
    try:
        rows, _ = everything(open_source(ms.jdbc_table(postgres_db.url, '"odd.schema".T')))
    finally:
        postgres_db.execute('DROP SCHEMA "odd.schema" CASCADE')
    assert rows == [{"id": 1}]


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_texts_mean_the_same_whatever_the_server_is_told(postgres, postgres_db, open_source, conforming):
    postgres_db.execute("CREATE TABLE t (name text PRIMARY KEY)")
    postgres_db.insert("t", [(name,) for name in NASTY])
    postgres.execute("ALTER ROLE postgres SET standard_conforming_strings = " + conforming)
    try:
        rows, _ = everything(open_source(ms.jdbc_table(postgres_db.url, "t")), 1)
    finally:
        postgres.execute("ALTER ROLE postgres RESET standard_conforming_strings")
    assert {row["name"] for row in rows} == set(NASTY)


def test_times_mean_the_same_whatever_the_server_is_told(postgres, postgres_db, open_source):
    postgres_db.execute("CREATE TABLE t (at timestamptz PRIMARY KEY, n int)")
    postgres_db.execute(
        "INSERT INTO t SELECT timestamptz '2024-03-31 00:00Z' + g * interval '20 min', g FROM generate_series(1, 9) g"
    )
    postgres.execute("ALTER ROLE postgres SET timezone = 'Europe/Berlin'")
    postgres.execute("ALTER ROLE postgres SET datestyle = 'SQL, DMY'")
    try:
        rows, path = everything(open_source(ms.jdbc_table(postgres_db.url, "t"), schema="n int"), 1)
    finally:
        postgres.execute("ALTER ROLE postgres RESET timezone")
        postgres.execute("ALTER ROLE postgres RESET datestyle")
    assert [row["n"] for row in rows] == list(range(1, 10))
    assert path[0]["upper"] == ["2024-03-31 03:00:00+00"]


# Collations

WORDS = ["a", "A", "b", "B", "ä", "Z", "z", "aa", "a a", "a-a"]


@pytest.mark.parametrize("collation", ["C", "pg_unicode_fast"])
@pytest.mark.parametrize("credit", [1, 3])
def test_texts_are_read_in_the_order_of_their_collation(postgres_db, open_source, collation, credit):
    postgres_db.execute(f'CREATE TABLE t (w text COLLATE "{collation}" PRIMARY KEY)')
    postgres_db.insert("t", [(word,) for word in WORDS])
    opened = open_source(ms.jdbc_table(postgres_db.url, "t"))
    rows, path = everything(opened, credit)
    assert [row["w"] for row in rows] == [word for (word,) in postgres_db.execute("SELECT w FROM t ORDER BY w")]
    assert collation in path[0]["key"][0][2]


def test_a_column_that_gets_another_collation_is_read_on_in_the_old_one(postgres_db, open_source):
    postgres_db.execute('CREATE TABLE t (w text COLLATE "C" PRIMARY KEY)')
    postgres_db.insert("t", [(word,) for word in WORDS])
    opened = open_source(ms.jdbc_table(postgres_db.url, "t", chunk_rows=2))
    start = opened.initial()
    advance = opened.advance(start, 4)
    while advance.position == start:
        advance = opened.advance(start, 4)
    first = opened.read(start, advance.position)
    postgres_db.execute('ALTER TABLE t ALTER w TYPE text COLLATE "pg_unicode_fast"')
    rest, path = everything(opened, 3, start=advance.position)
    assert sorted(row["w"] for row in [*first, *rest]) == sorted(WORDS)
    assert path[-1]["key"] == start["key"]


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM", "BINARY"])
def test_collations_of_sqlite_hold_in_comparisons_and_orders(sqlite_db, open_source, collation):
    sqlite_db.execute(f"CREATE TABLE t (w TEXT COLLATE {collation} NOT NULL, n INTEGER)")
    sqlite_db.execute("CREATE INDEX t_w ON t (w)")
    words = ["a", "A", "b", "B ", "b", "C", "c  "]
    sqlite_db.insert("t", [(word, n) for n, word in enumerate(words)])
    for source in ("t", "(SELECT * FROM t)"):
        spec = ms.jdbc_query(sqlite_db.url, f"SELECT w, n FROM {source}", key="w")
        rows, _ = everything(open_source(spec), 1)
        assert sorted(row["n"] for row in rows) == list(range(len(words)))


# What SQLite holds


def test_columns_of_sqlite_hold_any_value(sqlite_db, open_source):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
    sqlite_db.insert("t", [(1, None), (2, 2**60), (3, 2.5), (4, "2.5"), (5, "NaN"), (6, "word"), (7, b"\x00")])
    opened = open_source(ms.jdbc_table(sqlite_db.url, "t"), schema="id long, x double")
    start = opened.initial()
    advance = opened.advance(start, 100)
    while advance.position == start:
        advance = opened.advance(start, 100)
    rows, bad = parts_of(opened, start, advance.position)
    assert [str(row["x"]) for row in rows] == ["None", str(float(2**60)), "2.5", "2.5", "nan"]
    assert [(each.origin, each.error) for each in bad] == [
        ("t id=6", "column 'x' holds word, which is no double"),
        ("t id=7", "column 'x' holds x'00', which is no double"),
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("long", [7, None]), ("string", ["7", "0.1"]), ("decimal(20,5)", ["7.00000", "0.10000"]), ("double", [7.0, 0.1])],
)
def test_numbers_of_sqlite_are_read_exactly_or_refused(sqlite_db, open_source, wanted, expected):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
    sqlite_db.insert("t", [(1, 7), (2, 0.1)])
    opened = open_source(ms.jdbc_table(sqlite_db.url, "t"), schema=f"id long, x {wanted}")
    start = opened.initial()
    advance = opened.advance(start, 100)
    while advance.position == start:
        advance = opened.advance(start, 100)
    rows, bad = parts_of(opened, start, advance.position)
    found = {row["id"]: row["x"] for row in rows}
    shown = [str(found.get(key)) if wanted.startswith("decimal") else found.get(key) for key in (1, 2)]
    assert shown == expected
    assert len(bad) == expected.count(None)


def test_what_the_rows_of_sqlite_hold_is_looked_at_where_nothing_is_declared(sqlite_db):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n NUMERIC, r REAL NOT NULL, d DATE, w VARCHAR(9))")
    sqlite_db.insert("t", [(1, 5, 1.5, "2024-01-01", "x"), (2, 2.5, 2, None, None)])
    query = "SELECT *, id + 1 AS more, w || '!' AS loud, x'00' AS b FROM t"
    schema = found_schema(options_of(ms.jdbc_query(sqlite_db.url, query)))
    assert schema.ddl == "id long, n double, r double, d date, w string, more long, loud string, b binary"


def test_what_nobody_can_tell_is_refused(sqlite_db):
    with pytest.raises(InvalidSchema, match=r"JDBC-032.*'x'.*CAST\(x AS TEXT\).*schema="):
        found_schema(options_of(ms.jdbc_query(sqlite_db.url, "SELECT NULL AS x")))


def test_text_that_is_no_text_is_refused(sqlite_db, open_source):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, w TEXT)")
    sqlite_db.execute("INSERT INTO t VALUES (1, CAST(x'ff' AS TEXT))")
    with pytest.raises(StepFailed, match=r"JDBC-013.*UTF-8"):
        everything(open_source(ms.jdbc_table(sqlite_db.url, "t")))


def test_reading_makes_no_file(tmp_path, open_source):
    with pytest.raises(StepFailed, match="JDBC-013"):
        open_source(ms.jdbc_table(f"sqlite:///{tmp_path}/none.db", "t", key="a"), schema="a long").initial()
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_being_written_is_read_as_it_was(sqlite_db, open_source):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    sqlite_db.insert("t", [(1,)])
    with contextlib.closing(sqlite3.connect(sqlite_db.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (2)")
        assert everything(open_source(ms.jdbc_table(sqlite_db.url, "t")))[0] == [{"id": 1}]
        writer.execute("ROLLBACK")
