"""Options of the source: what is refused where it is written, what a source promises, what a plan holds."""

import datetime as dt
import json
import re
import sqlite3
import textwrap

import pytest
from tests.unit.connectors.jdbc.databases import options_of

import millstream as ms
from millstream.connectors.jdbc.reading.forms import SourceColumn, schema_from
from millstream.connectors.jdbc.reading.relation import table_parts
from millstream.connectors.jdbc.reading.spec import SOURCE
from millstream.errors import InvalidPlan, InvalidSchema, InvalidStep, MillstreamError
from millstream.model.guarantee import SourceCapability

URL = "postgresql://me@db/shop"


def step(spec, schema="id long", **job):
    made = ms.Job("j", **job)
    made.source("in", spec, schema=schema).sink("out", ms.collect("out"))
    return made


# Queries


@pytest.mark.parametrize(
    "query",
    ["SELECT 1 AS id", "select * from t;", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1) UNION ALL (SELECT 2)",
     "SELECT * FROM t -- a remark", "SELECT j ->> 'a', n::numeric(9,2), count(*) FILTER (WHERE x) FROM t GROUP BY 1, 2",
     "SELECT * FROM t WHERE tag ? 'x' AND braces = '{x}'", "SELECT a /* ; */ FROM t WHERE b <> ';'"],
)  # fmt: skip
def test_one_select_is_a_query(query):
    step(ms.jdbc_query(URL, query, key="id"))


@pytest.mark.parametrize(
    "query",
    ["", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE t", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t",
     "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", "SELECT * INTO u FROM t", "SELECT * FROM t FOR UPDATE",
     "CREATE TABLE u AS SELECT 1", "EXPLAIN SELECT 1", "VACUUM", "SELECT FROM WHERE", "SELECT 'open"],
)  # fmt: skip
def test_anything_else_is_refused(query):
    with pytest.raises(InvalidStep, match=rf"JDBC-030.*step 'in'.*{re.escape(repr(query)[:-1])}.*one SELECT"):
        step(ms.jdbc_query(URL, query, key="id"))


@pytest.mark.parametrize("url", ["sqlite:///x.db", "mysql://me@db/shop"])
def test_a_query_is_read_in_the_words_of_its_database(url):
    step(ms.jdbc_query(url, "SELECT `id` FROM `t`", key="id"))


def test_a_query_that_is_not_understood_may_be_a_view():
    with pytest.raises(InvalidStep, match="a view in the database may hold it"):
        step(ms.jdbc_query(URL, "SELECT FROM WHERE", key="id"))


# Tables


@pytest.mark.parametrize("spec", [ms.jdbc_table, ms.jdbc_query])
def test_a_key_that_is_no_list_of_names_is_refused_by_name(spec):
    with pytest.raises(InvalidStep, match=r"CONN-005.*step 'in'.*option 'key'.*found 5"):
        step(spec(URL, "SELECT 1 AS id", key=5))


@pytest.mark.parametrize("key", ["id", "[id]"])
def test_one_column_may_stand_by_itself_in_a_job_file(key):
    text = f"""
        job: j
        steps:
          - source: in
            from: {{jdbc: {{url: "{URL}", query: SELECT 1 AS id, key: {key}}}}}
            schema: id long
          - sink: out
            to: {{jdbc: {{url: "{URL}", table: t, mode: upsert, keys: {key}}}}}
        """
    steps = ms.load_job(textwrap.dedent(text)).model.steps
    assert steps[0].operation.connector.options["key"] == ["id"]
    assert steps[1].operation.connector.options["keys"] == ["id"]


@pytest.mark.parametrize("query", ["SELECT a FROM gone", "SELECT 1; SELECT 2", "SELECT b FROM orders"])
def test_what_is_wrong_where_columns_are_looked_up_names_the_step(tmp_path, query):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (a int)")
    with pytest.raises(MillstreamError, match="step 'in'"):
        step(ms.jdbc_query(f"sqlite:///{tmp_path}/shop.db", query, key="a"), schema=None)


@pytest.mark.parametrize(
    ("name", "cast", "wanted"),
    [
        ("a", "{}::text", "a::text"),
        ("K 0", "{}::text", '"K 0"::text'),
        ('q"', "CAST({} AS CHAR)", 'CAST(`q"` AS CHAR)'),
    ],
)
def test_a_cast_can_be_written_as_it_is_shown(name, cast, wanted):
    column = SourceColumn(name=name, type="macaddr", read_as=None, nullable=True, cast=cast)
    with pytest.raises(InvalidSchema) as refused:
        schema_from([column], step="in")
    assert f"as in {wanted}," in refused.value.hint


@pytest.mark.parametrize(
    ("text", "parts"),
    [("orders", ["orders"]), ("sales.orders", ["sales", "orders"]), ('"a.b"', ["a.b"]), ('s."a""b"', ["s", 'a"b']),
     ("Größe x", ["Größe x"])],
)  # fmt: skip
def test_names_of_tables(text, parts):
    assert table_parts(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.b.c", '"a', 'a"b', '""', "a\0b"])
def test_what_names_no_table_is_refused(text):
    with pytest.raises(InvalidStep, match=r"CONN-005.*sales\.orders"):
        step(ms.jdbc_table(URL, text))


def test_sqlite_has_no_schemas(tmp_path):
    (tmp_path / "x.db").touch()
    with pytest.raises(InvalidStep, match=r"JDBC-001.*no schemas"):
        ms.Job("j").source("in", ms.jdbc_table(f"sqlite:///{tmp_path}/x.db", "main.t"))


# Options together


@pytest.mark.parametrize(
    ("spec", "text"),
    [(ms.jdbc_table(URL, "t", poll="1s"), "only an incremental source polls"),
     (ms.jdbc_table(URL, "t", incremental="v", count="exact"), "cannot be counted"),
     (ms.jdbc_table("sqlite:///x.db", "t", timeout="1s"), "no statement time-outs"),
     (ms.jdbc_table(URL, "t", key=(), nulls="read"), "only a source with a key"),
     (ms.jdbc_query(URL, "SELECT 1", settle="1s"), "only a source with a key")],
)  # fmt: skip
def test_options_that_make_no_sense_together_are_refused(spec, text):
    with pytest.raises(InvalidStep, match=f"JDBC-001.*{text}"):
        step(spec)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"chunk_rows": 0}, "above zero"), ({"nulls": "skip"}, "refuse, read"), ({"count": "some"}, "estimate, exact, none"),
     ({"timeout": "soon"}, "a duration"), ({"key": ["a", "a"]}, "different column names"),
     ({"password_env": "a b"}, "environment")],
)  # fmt: skip
def test_wrong_values_are_refused(options, text):
    with pytest.raises(InvalidStep, match=f"CONN-005.*{text}"):
        step(ms.jdbc_table(URL, "t", **options))


def test_a_source_reads_one_thing():
    spec = ms.jdbc_table(URL, "t")
    spec.options["query"] = "SELECT 1"
    with pytest.raises(InvalidStep, match=r"JDBC-001.*either a query or a table"):
        step(spec)


@pytest.mark.parametrize(
    "url", ["oracle://me@db/shop", "mysql://me@db/shop?x=1", "mysql://db", "mysql://me@db:x/d", "sqlite:///"]
)
def test_urls_are_checked(url):
    with pytest.raises(InvalidStep, match=r"CONN-005.*(postgresql://|mysql://|sqlite:///)"):
        step(ms.jdbc_table(url, "t"))


def test_mysql_is_no_sink():
    job = ms.Job("j")
    with pytest.raises(InvalidStep, match=r"CONN-005.*postgresql://"):
        job.source("in", ms.memory([]), schema="a long").sink("out", ms.jdbc("mysql://me@db/shop", table="t"))


# Promises


@pytest.mark.parametrize(
    ("spec", "promised"),
    [(ms.jdbc_table(URL, "t"), "REPLAYABLE"), (ms.jdbc_table(URL, "t", key="a"), "REPLAYABLE"),
     (ms.jdbc_query(URL, "SELECT 1", key="a"), "REPLAYABLE"), (ms.jdbc_query(URL, "SELECT 1", incremental="a"), "REPLAYABLE"),
     (ms.jdbc_table(URL, "t", key=()), "AT_LEAST_ONCE"), (ms.jdbc_query(URL, "SELECT 1"), "AT_LEAST_ONCE")],
)  # fmt: skip
def test_what_a_source_promises(spec, promised):
    assert SOURCE.promises(options_of(spec)) is SourceCapability(promised)


def test_without_a_key_a_job_may_not_promise_more_than_at_least_once():
    spec = ms.jdbc_query(URL, "SELECT 1 AS id")
    with pytest.raises(InvalidPlan, match=r"PLAN-040.*'in' \(jdbc\) is AT_LEAST_ONCE"):
        step(spec).compile()
    step(spec, guarantee="at_least_once").compile()


def test_only_an_incremental_source_has_no_end():
    assert SOURCE.is_bounded(options_of(ms.jdbc_table(URL, "t")))
    assert not SOURCE.is_bounded(options_of(ms.jdbc_table(URL, "t", incremental="v")))


# Modes and parameters


def test_a_query_that_ends_is_a_task_of_sql():
    assert step(ms.jdbc_query(URL, "SELECT 1 AS id", key="id")).compile().deployment.mode == "SQL_TASK"


def test_a_run_gives_its_parameters_to_the_query(sqlite_db):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, day TEXT)")
    sqlite_db.insert("t", [(number, f"2024-01-0{number}") for number in range(1, 6)])
    job = ms.Job("days", params={"day": "date", "most": {"type": "int", "default": 9}})
    query = "SELECT * FROM t WHERE day >= ${param:day} AND id <= ${param:most};"
    job.source("in", ms.jdbc_query(sqlite_db.url, query, key="id"), schema="id long").sink("out", ms.collect("days"))
    assert job.run(local=True, params={"day": "2024-01-03"}).rows_in == 3
    assert job.run(local=True, params={"day": "2024-01-03", "most": 4}).rows_in == 2


def test_a_query_with_parameters_needs_a_schema():
    job = ms.Job("days", params={"day": "date"})
    with pytest.raises(InvalidStep, match=r"STEP-061.*needs a schema"):
        job.source("in", ms.jdbc_query(URL, "SELECT * FROM t WHERE day = ${param:day}", key="id"))


# Plans


def test_a_plan_holds_no_password():
    job = step(ms.jdbc_table("postgresql://me:${secret:PW}@db/shop", "t", settle=dt.timedelta(seconds=2)))
    stored = json.loads(json.dumps(job.to_json()))
    assert "${secret:PW}" in json.dumps(stored)
    assert ms.Job.from_json(stored).model == job.model
    with pytest.raises(InvalidStep, match="JDBC-025") as refused:
        step(ms.jdbc_table("postgresql://me:hunter2@db/shop", "t")).to_json()
    assert "hunter2" not in str(refused.value)


def test_durations_are_texts_in_plans():
    options = options_of(ms.jdbc_table(URL, "t", incremental="v", poll=2, settle=dt.timedelta(seconds=1)))
    assert (options["poll"], options["settle"]) == ("2000ms", "1000ms")


def test_options_are_read_from_a_job_file(tmp_path, sqlite_db):
    sqlite_db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    sqlite_db.insert("t", [(1,), (2,)])
    path = tmp_path / "job.yaml"
    path.write_text(
        f"job: j\nsteps:\n  - source: in\n    from: {{jdbc: {{url: 'sqlite:///{sqlite_db.path}', table: t}}}}\n"
        "  - sink: out\n    to: {collect: {name: from-file}}\n"
    )
    result = ms.load_job(path).run(local=True)
    assert result.rows_in == 2
