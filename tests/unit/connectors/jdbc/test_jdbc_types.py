"""Types: every value as the database's own client gives it, or a bad record that says why not."""

import datetime as dt
import decimal
import json
import math
import uuid

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.connectors.jdbc.databases import everything, options_of, parts_of

import millstream as ms
from millstream.connectors.jdbc.reading.preview import found_schema
from millstream.connectors.jdbc.types import postgres_read, sqlite_read
from millstream.errors import InvalidSchema

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
AWARE = st.datetimes(timezones=st.just(dt.UTC))
COLUMNS = {
    "boolean": (st.booleans(), "boolean"),
    "smallint": (st.integers(-(2**15), 2**15 - 1), "short"),
    "integer": (st.integers(-(2**31), 2**31 - 1), "int"),
    "bigint": (st.integers(-(2**63), 2**63 - 1), "long"),
    "real": (st.floats(width=32, allow_nan=False), "float"),
    "double precision": (st.floats(allow_nan=False), "double"),
    "numeric(10,2)": (st.decimals(-99999999, 99999999, places=2), "decimal(10,2)"),
    "numeric(38,10)": (st.decimals("-1e27", "1e27", places=10), "decimal(38,10)"),
    "text": (TEXT, "string"),
    "character varying(40)": (TEXT, "string"),
    "bytea": (st.binary(max_size=30), "binary"),
    "date": (st.dates(), "date"),
    "timestamp with time zone": (AWARE, "timestamp"),
    "timestamp without time zone": (st.datetimes(), "timestamp_ntz"),
    "uuid": (st.uuids(), "string"),
    "mood": (st.sampled_from(["sad", "it's", "o\\k"]), "string"),
    "integer[]": (st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4), "array<int>"),
    "text[]": (st.lists(st.none() | TEXT, max_size=4), "array<string>"),
    "numeric(12,3)[]": (st.lists(st.decimals(-1000, 1000, places=3), max_size=4), "array<decimal(12,3)>"),
    "uuid[]": (st.lists(st.uuids(), max_size=3), "array<string>"),
    "timestamp with time zone[]": (st.lists(AWARE, max_size=3), "array<timestamp>"),
    "boolean[]": (st.lists(st.booleans(), max_size=3), "array<boolean>"),
}


def plain(value):
    """A value of psycopg's as rows of ours have it."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


@pytest.fixture
def typed(postgres_db):
    postgres_db.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s', 'o\\k')")
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(COLUMNS))
    postgres_db.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, {columns})")
    return postgres_db


def test_the_schema_is_read_from_the_database(typed):
    schema = found_schema(options_of(ms.jdbc_table(typed.url, "t")))
    assert schema.names[0] == "id"
    assert not schema["id"].nullable
    found = {f"c{place}": expected for place, (_, expected) in enumerate(COLUMNS.values())}
    assert {field.name: field.type_name for field in schema if field.name != "id"} == found
    assert all(field.nullable for field in schema if field.name != "id")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(*(st.none() | values for values, _ in COLUMNS.values())), min_size=1, max_size=12),
    credit=st.integers(1, 20),
)
def test_random_rows_come_as_psycopg_gives_them(typed, open_source, rows, credit):
    typed.execute("TRUNCATE t")
    casts = ", ".join(f"%s::{kind}" for kind in COLUMNS)
    with psycopg.connect(typed.url) as connection, connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO t VALUES (%s, {casts})", [(number, *row) for number, row in enumerate(rows)])
    read, _ = everything(open_source(ms.jdbc_table(typed.url, "t", chunk_rows=3)), credit)
    # As text, psycopg takes a single for the shortest double that is written like it.
    names = ", ".join(f"c{n}::double precision" if kind == "real" else f"c{n}" for n, kind in enumerate(COLUMNS))
    oracle = [tuple(map(plain, row)) for row in typed.execute(f"SELECT id, {names} FROM t ORDER BY id")]
    assert [tuple(row.values()) for row in read] == oracle


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_keys_of_every_type_are_followed(typed, open_source, data):
    kind = data.draw(st.sampled_from([each for each in COLUMNS if each != "boolean"]))
    values, _ = COLUMNS[kind]
    keys = data.draw(st.lists(values, min_size=1, max_size=15))
    typed.execute("DROP TABLE IF EXISTS k")
    typed.execute(f"CREATE TABLE k (k {kind} NOT NULL, n bigint)")
    with psycopg.connect(typed.url) as connection, connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO k VALUES (%s::{kind}, %s)", list(zip(keys, range(len(keys)))))
    opened = open_source(ms.jdbc_table(typed.url, "k", key="k"), schema="n long")
    rows, _ = everything(opened, data.draw(st.integers(1, 6)))
    assert sorted(row["n"] for row in rows) == list(range(len(keys)))


def test_texts_of_json_and_others_come_as_the_server_writes_them(postgres_db, open_source):
    postgres_db.execute('CREATE TABLE t (id int PRIMARY KEY, j json, b jsonb, c char(5), n name, x "char")')
    postgres_db.execute("""INSERT INTO t VALUES (1, '{"a": 1.10}', '{"b":[1,null]}', 'ab', 'me', 'z')""")
    rows, _ = everything(open_source(ms.jdbc_table(postgres_db.url, "t")))
    assert rows == [{"id": 1, "j": '{"a": 1.10}', "b": '{"b": [1, null]}', "c": "ab   ", "n": "me", "x": "z"}]


def test_domains_are_what_they_are_made_of(postgres_db, open_source):
    postgres_db.execute("CREATE DOMAIN price AS numeric(8,2) CHECK (value > 0)")
    postgres_db.execute("CREATE TABLE t (id int PRIMARY KEY, p price)")
    postgres_db.execute("INSERT INTO t VALUES (1, 12.5)")
    rows, _ = everything(open_source(ms.jdbc_table(postgres_db.url, "t")))
    assert rows == [{"id": 1, "p": decimal.Decimal("12.50")}]


# Declared otherwise


DECLARED = [
    ("smallint", "7", "long", 7),
    ("integer", "7", "decimal(12,2)", decimal.Decimal("7.00")),
    ("integer", "7", "double", 7.0),
    ("real", "1.5", "double", 1.5),
    ("numeric", "1.25", "decimal(10,3)", decimal.Decimal("1.250")),
    ("numeric", "1.25", "double", 1.25),
    ("numeric(10,2)", "1.25", "string", "1.25"),
    ("interval", "'1 day 2 hours'", "string", "1 day 02:00:00"),
    ("inet", "'10.0.0.1/8'", "string", "10.0.0.1/8"),
    ("bigint", "7", "string", "7"),
    ("bigint", "7", "short", 7),
    ("jsonb", """'{"a": 1, "b": ["x"]}'""", "struct<a:long,b:array<string>>", {"a": 1, "b": ["x"]}),
    ("json", "'[1.5, 2]'", "array<decimal(5,2)>", [decimal.Decimal("1.50"), decimal.Decimal("2.00")]),
    ("jsonb", """'{"k": 1}'""", "map<string,long>", {"k": 1}),
]


@pytest.mark.parametrize(("kind", "value", "wanted", "expected"), DECLARED, ids=lambda each: str(each)[:20])
def test_a_schema_may_ask_for_another_type(postgres_db, open_source, kind, value, wanted, expected):
    query = f"SELECT 1 AS id, {value}::{kind} AS v"
    rows, _ = everything(open_source(ms.jdbc_query(postgres_db.url, query, key="id"), schema=f"id int, v {wanted}"))
    assert rows == [{"id": 1, "v": expected}]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("text", "long"), ("timestamp", "timestamp"), ("double precision", "long"), ("integer[]", "array<string>"),
     ("date", "timestamp"), ("integer", "boolean"), ("numeric", "long")],
)  # fmt: skip
def test_a_type_that_cannot_be_read_as_another_is_refused_at_the_start(postgres_db, open_source, kind, wanted):
    query = f"SELECT 1 AS id, NULL::{kind} AS v"
    opened = open_source(ms.jdbc_query(postgres_db.url, query, key="id"), schema=f"id int, v {wanted}")
    with pytest.raises(InvalidSchema, match=r"JDBC-032.*'v' cannot be read as"):
        opened.initial()


@pytest.mark.parametrize(
    ("kind", "cast"),
    [("interval", "extract(epoch FROM v)"), ("time", "v::text"), ("numeric", "v::numeric(38,10)"), ("oid", "v::bigint"),
     ("money", "v::numeric(38,2)"), ("inet", "v::text"), ("int4range", "v::text"), ("bit(3)", "v::text"),
     ("numeric(60,2)", "v::numeric(38,10)"), ("point[]", "v::text")],
)  # fmt: skip
def test_a_type_without_a_counterpart_is_refused_with_the_cast_that_helps(postgres_db, kind, cast):
    with pytest.raises(InvalidSchema) as refused:
        found_schema(options_of(ms.jdbc_query(postgres_db.url, f"SELECT NULL::{kind} AS v")))
    assert refused.value.code == "JDBC-032"
    assert cast in refused.value.hint
    assert "'v'" in refused.value.message


def test_a_column_that_is_not_there_is_named(database, open_source):
    opened = open_source(ms.jdbc_query(database.url, "SELECT 1 AS a", key="a"), schema="a long, b long")
    with pytest.raises(InvalidSchema, match=r"JDBC-031.*no column 'b'.*known: a"):
        opened.initial()


# Values without a counterpart


BAD = [
    ("timestamptz", "'infinity'", "timestamp", "infinite"),
    ("timestamp", "'-infinity'", "timestamp_ntz", "infinite"),
    ("date", "'infinity'", "date", "infinite"),
    ("date", "'5874897-12-31'", "date", "years 1 to 9999"),
    ("timestamptz", "'0044-03-15 BC'", "timestamp", "years 1 to 9999"),
    ("timestamptz[]", "'{2024-01-01, infinity}'", "array<timestamp>", "infinite"),
    ("numeric", "'NaN'", "decimal(10,2)", "NaN, which is no decimal(10,2)"),
    ("numeric", "'Infinity'", "decimal(10,2)", "Infinity, which is no decimal(10,2)"),
    ("numeric", "'1e40'", "decimal(38,0)", "which is no decimal(38,0)"),
    ("numeric", "1.005", "decimal(10,2)", "1.005, which is no decimal(10,2)"),
    ("bigint", "70000", "short", "70000, which is no short"),
    ("integer[]", "'{{1,2},{3,4}}'", "array<int>", "several dimensions"),
    ("jsonb", "'5'", "struct<a:long>", "which is no struct<a:long>"),
]


@pytest.mark.parametrize(("kind", "value", "wanted", "why"), BAD, ids=lambda each: str(each)[:24])
def test_a_value_that_does_not_fit_makes_its_row_a_bad_record(postgres_db, open_source, kind, value, wanted, why):
    postgres_db.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    postgres_db.execute(
        f"INSERT INTO t SELECT g, CASE WHEN g = 6 THEN {value}::{kind} END FROM generate_series(1, 9) g"
    )
    opened = open_source(ms.jdbc_table(postgres_db.url, "t"), schema=f"id int, v {wanted}")
    start = opened.initial()
    advance = opened.advance(start, 1000)
    while advance.position == start:
        advance = opened.advance(start, 1000)
    rows, (bad,) = parts_of(opened, start, advance.position)
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5, 7, 8, 9]
    assert why in bad.error
    assert bad.origin == "t id=6"
    assert json.loads(bad.raw)["id"] == "6"


def test_a_null_where_none_may_be_makes_a_bad_record(database, open_source):
    database.execute(f"CREATE TABLE t (id {database.long} PRIMARY KEY, v {database.text})")
    database.insert("t", [(1, "a"), (2, None)])
    opened = open_source(ms.jdbc_table(database.url, "t"), schema="v string not null")
    start = opened.initial()
    advance = opened.advance(start, 10)
    while advance.position == start:
        advance = opened.advance(start, 10)
    rows, (bad,) = parts_of(opened, start, advance.position)
    assert rows == [{"v": "a"}]
    assert bad.error == "column 'v' holds null, which it may not"
    assert bad.origin.startswith("t behind ")
    assert bad.origin.endswith(" up to id=2"), "the key is not among the columns that are read"


def test_huge_numbers_are_exact(postgres_db, open_source):
    values = ["-99999999999999999999999999999999999999", "12345678901234567890123456789012345678", "0", "1e37"]
    numbers = ", ".join(f"({place}, {value}::numeric)" for place, value in enumerate(values))
    opened = open_source(
        ms.jdbc_query(postgres_db.url, f"SELECT * FROM (VALUES {numbers}) AS v (id, n)", key="id"),
        schema="id int, n decimal(38,0)",
    )
    rows, _ = everything(opened)
    assert [row["n"] for row in rows] == [decimal.Decimal(value) for value in values]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_doubles_know_what_is_no_number(postgres_db, open_source, value):
    query = f"SELECT 1 AS id, '{value}'::float8 AS d, '{value}'::float4 AS f"
    (row,), _ = everything(open_source(ms.jdbc_query(postgres_db.url, query, key="id")))
    assert math.isnan(row["d"]) if value == "NaN" else row["d"] == float(value)
    assert math.isnan(row["f"]) if value == "NaN" else row["f"] == float(value)


def test_infinite_times_are_keys_all_the_same(postgres_db, open_source):
    postgres_db.execute("CREATE TABLE t (at timestamptz PRIMARY KEY, n int)")
    postgres_db.execute(
        "INSERT INTO t VALUES ('-infinity', 1), ('2024-01-01', 2), ('infinity', 3), ('0044-03-15 BC', 4)"
    )
    rows, path = everything(open_source(ms.jdbc_table(postgres_db.url, "t"), schema="n int"), 1)
    assert [row["n"] for row in rows] == [1, 4, 2, 3]
    assert path[0]["upper"] == ["infinity"]


# Names of types


@pytest.mark.parametrize(
    ("found", "read"),
    [("smallint", "int16"), ("timestamp(3) with time zone", "timestamp[us, tz=UTC]"), ("numeric(39,0)", None),
     ("numeric(5,-2)", None), ("public.citext", "string"), ("character(9)", "string"), ("interval[]", None)],
)  # fmt: skip
def test_types_of_postgresql(found, read):
    assert (None if (kind := postgres_read(found)) is None else str(kind)) == read


@pytest.mark.parametrize(
    ("declared", "read"),
    [("INT", "int64"), ("VARCHAR(20)", "string"), ("DOUBLE", "double"), ("decimal(10, 2)", "decimal128(10, 2)"),
     ("boolean", "bool"), ("DATE", "date32[day]"), ("TIMESTAMP", "timestamp[us]"), ("blob", "binary"), ("", None),
     ("NUMERIC", None)],
)  # fmt: skip
def test_declarations_of_sqlite(declared, read):
    assert (None if (kind := sqlite_read(declared)) is None else str(kind)) == read
