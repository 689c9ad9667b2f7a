"""Target tables: created when they are missing, checked when they are there."""

import threading

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest, SqliteUnderTest
from tests.unit.connectors.sinks.under_test import VALUES, Owner, context, rows, seen

from millstream.errors import InvalidSchema, InvalidStep, StepFailed
from millstream.model.schema import schema_of


def refusal(sink, schema, kind):
    with pytest.raises(kind) as refused:
        sink.committer(context(schema=schema_of(schema)))
    assert refused.value.step == "out"
    return refused.value


def test_a_missing_table_is_created_with_the_columns(open_sink):
    sink = open_sink(mode="upsert")
    sink.committer(context(schema=VALUES))
    names = [column[0] for column in columns(sink)]
    assert names == list(VALUES.names)
    if isinstance(sink, SqliteUnderTest):
        return
    assert dict(columns(sink)) == {
        "id": "bigint",
        "flag": "boolean",
        "tiny": "smallint",
        "small": "smallint",
        "medium": "integer",
        "single": "real",
        "real": "double precision",
        "text": "text",
        "raw": "bytea",
        "day": "date",
        "at": "timestamp with time zone",
        "wall": "timestamp without time zone",
        "price": "numeric",
        "tags": "jsonb",
        "counts": "jsonb",
        "inner": "jsonb",
    }


def columns(sink):
    if isinstance(sink, SqliteUnderTest):
        return sink.execute("SELECT name, type FROM pragma_table_info('target')")
    query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'target'"
    return sink.execute(f"{query} ORDER BY ordinal_position")


def test_a_column_that_may_not_be_null_is_created_so(open_sink):
    sink = open_sink()
    sink.committer(context(schema=schema_of("id long not null, name string")))
    with pytest.raises(Exception, match=r"(?i)not.null"):
        sink.execute("INSERT INTO target (name) VALUES ('x')")


def test_a_missing_table_is_refused_without_create(open_sink):
    assert refusal(open_sink(create=False), "id long", InvalidStep).code == "JDBC-004"


def test_a_fitting_table_is_used_as_it_is(open_sink):
    sink = open_sink()
    sink.execute("CREATE TABLE target (name text, extra integer DEFAULT 7, amount double precision, id bigint)")
    Owner(sink).run(0, rows(0))
    assert seen(sink) == rows(0)
    assert sink.execute("SELECT DISTINCT extra FROM target") == [(7,)]


def test_a_missing_column_is_named(open_sink):
    sink = open_sink()
    sink.execute("CREATE TABLE target (id bigint)")
    found = refusal(sink, "id long, name string", InvalidSchema)
    assert found.code == "JDBC-005"
    assert "'name'" in found.message


@pytest.mark.parametrize(
    ("column", "kind"),
    [("text", "long"), ("integer", "string"), ("bytea", "double"), ("real", "decimal(10,2)"), ("bigint", "array<int>")],
)
def test_a_column_of_another_type_is_named(open_sink, column, kind):
    sink = open_sink()
    if isinstance(sink, SqliteUnderTest) and column == "bytea":
        column = "text"
    sink.execute(f"CREATE TABLE target (id bigint, amount {column})")
    found = refusal(sink, f"id long, amount {kind}", InvalidSchema)
    assert found.code == "JDBC-005"
    assert "'amount'" in found.message
    assert found.found.lower() == column


def test_a_narrower_number_is_refused_and_a_wider_one_taken(postgres_url):
    sink = PostgresUnderTest(postgres_url)
    sink.execute("CREATE TABLE target (a integer, b numeric(12,4))")
    assert "'a'" in refusal(sink, "a long, b decimal(10,2)", InvalidSchema).message
    assert "'b'" in refusal(sink, "a int, b decimal(10,5)", InvalidSchema).message
    sink.committer(context(schema=schema_of("a short, b decimal(10,2)")))
    sink.close()


@pytest.mark.parametrize("kind", ["jsonb", "json", "text"])
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_nested_values_go_into_any_column_of_text(postgres_url, kind, mode):
    sink = PostgresUnderTest(postgres_url, mode=mode)
    sink.execute(f"CREATE TABLE target (id bigint PRIMARY KEY, tags {kind}, name varchar(20))")
    schema = schema_of("id long, tags array<string>, name string")
    content = [{"id": 1, "tags": ["a", "b"], "name": "x"}]
    Owner(sink, schema=schema).run(0, content)
    assert seen(sink, schema) == content
    sink.close()


def test_a_column_without_a_value_is_named(open_sink):
    sink = open_sink()
    sink.execute("CREATE TABLE target (id bigint, origin text NOT NULL)")
    found = refusal(sink, "id long", InvalidSchema)
    assert found.code == "JDBC-006"
    assert "'origin'" in found.message


def test_upsert_needs_a_unique_index_on_its_keys(open_sink):
    sink = open_sink(mode="upsert")
    sink.execute("CREATE TABLE target (id bigint, name text, amount double precision)")
    assert refusal(sink, "id long, name string", InvalidStep).code == "JDBC-007"
    sink.execute("CREATE UNIQUE INDEX wrong ON target (id, name)")
    assert refusal(sink, "id long, name string", InvalidStep).code == "JDBC-007"
    sink.execute("CREATE UNIQUE INDEX right_one ON target (id)")
    Owner(sink).run(0, rows(0))
    assert seen(sink) == rows(0)


def test_strange_names_are_quoted(open_sink):
    sink = open_sink(table="Order")
    schema = schema_of({"id": "long", 'se"lect': "string", "50% off; --": "string", "größe $1 ?1": "string"})
    content = [{"id": 1, 'se"lect': "a", "50% off; --": "b", "größe $1 ?1": "c"}]
    Owner(sink, schema=schema).run(0, content)
    assert sink.execute('SELECT * FROM "Order"') == [(1, "a", "b", "c")]


@pytest.mark.parametrize("name", ["ms_part", "ms_epoch", "x" * 64])
def test_names_that_cannot_be_columns_are_refused(open_sink, name):
    assert refusal(open_sink(), f"id long, {name} string", InvalidSchema).code == "JDBC-009"


def test_unknown_keys_are_refused(open_sink):
    sink = open_sink(mode="upsert")
    assert refusal(sink, "other long", InvalidStep).code == "JDBC-001"


def test_tables_are_created_by_many_at_once(open_sink):
    sink = open_sink(mode="outbox")
    problems = []

    def open_committer():
        try:
            sink.committer(context())
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=open_committer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_schema_of_the_database(postgres, postgres_url):
    postgres.execute("DROP SCHEMA IF EXISTS apart CASCADE")
    sink = PostgresUnderTest(postgres_url, schema="apart")
    with pytest.raises(StepFailed, match="apart"):
        sink.committer(context())
    postgres.execute("CREATE SCHEMA apart")
    for epoch in range(2):
        Owner(sink).run(epoch, rows(epoch * 10))
    assert postgres.execute("SELECT count(*) FROM apart.target") == [(20,)]
    assert postgres.execute("SELECT count(*) FROM apart.millstream_marker") == [(2,)]
    sink.close()
