"""The view of an outbox: ours bears a mark; a view or table of the user's under its name is never dropped nor taken for it."""

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest
from tests.unit.connectors.sinks.under_test import Owner, rows, seen

from millstream.connectors.jdbc.database import VIEW_MARK
from millstream.errors import InvalidStep
from millstream.model.schema import schema_of

OLDER = (
    'SELECT r."id", r."name", r."amount", p.job AS ms_job, p.lineage AS ms_lineage, p.step AS ms_step, '
    'p.epoch AS ms_epoch, p.task AS ms_task, r.ms_seq FROM "events" r JOIN "millstream_part" p '
    "ON p.part = r.ms_part WHERE p.is_published"
)
"""What the view selected before it had a mark."""
WIDER = schema_of("id long, name string, amount double, note string")


@pytest.fixture
def sink(open_sink):
    return open_sink(mode="outbox", table="events")


def is_marked(sink):
    if isinstance(sink, PostgresUnderTest):
        return sink.execute("SELECT obj_description('events_published'::regclass, 'pg_class')") == [(VIEW_MARK,)]
    ((text,),) = sink.execute("SELECT sql FROM sqlite_master WHERE name = 'events_published'")
    return VIEW_MARK in text


def text_of(sink):
    if isinstance(sink, PostgresUnderTest):
        return sink.execute("SELECT pg_get_viewdef('events_published'::regclass)")
    return sink.execute("SELECT sql FROM sqlite_master WHERE name = 'events_published'")


def as_before_marks(sink):
    """An outbox with published rows, whose view was made by an earlier version."""
    Owner(sink).run(0, rows(0, 2))
    sink.execute("DROP VIEW events_published")
    sink.execute(f'CREATE VIEW "events_published" AS {OLDER}')
    assert not is_marked(sink)


def refused(sink, **options):
    before = text_of(sink)
    with pytest.raises(InvalidStep) as caught:
        Owner(sink, token=5, **options)
    assert caught.value.code == "JDBC-021"
    assert "events_published" in caught.value.message
    assert text_of(sink) == before, "it stands as it was"


def test_a_view_of_ours_is_marked_and_kept(sink):
    Owner(sink).run(0, rows(0, 2))
    assert is_marked(sink)
    before = text_of(sink)
    Owner(sink, token=2).run(1, rows(2, 1))
    assert (text_of(sink), is_marked(sink), seen(sink)) == (before, True, rows(0, 3))


def test_a_view_from_before_there_were_marks_is_known_by_its_text_and_marked(sink):
    as_before_marks(sink)
    Owner(sink, token=2).run(1, rows(2, 1))
    assert is_marked(sink)
    assert seen(sink) == rows(0, 3)


def test_a_view_from_before_there_were_marks_gets_new_columns(sink):
    as_before_marks(sink)
    sink.execute("ALTER TABLE events ADD COLUMN note text")
    Owner(sink, token=2, schema=WIDER).run(1, [{**rows(2, 1)[0], "note": "new"}])
    assert is_marked(sink)
    assert sink.execute("SELECT id, note FROM events_published ORDER BY id") == [(0, None), (1, None), (2, "new")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS id, 'x' AS name, 2.5 AS amount",  # every column of the rows: it would have been taken for ours
        "SELECT 1 AS total",  # not every one: it would have been dropped
        OLDER.replace(" WHERE p.is_published", ""),  # nearly ours
        OLDER.replace("ms_part WHERE", "ms_part WHERE r.id > 0 AND"),
    ],
)
def test_a_view_of_the_users_is_refused_and_stays(sink, query):
    Owner(sink).run(0, rows(0, 2))
    sink.execute("DROP VIEW events_published")
    sink.execute(f"CREATE VIEW events_published AS {query}")
    shown = sink.execute("SELECT * FROM events_published")
    refused(sink)
    refused(sink, schema=schema_of("id long, name string, amount double"))
    assert sink.execute("SELECT * FROM events_published") == shown


def test_a_view_of_the_users_is_refused_before_anything_is_made(sink):
    """Also at the very first start, when there is no outbox yet."""
    sink.execute("CREATE VIEW events_published AS SELECT 1 AS id, 'x' AS name, 2.5 AS amount")
    refused(sink)
    with pytest.raises(Exception, match=r"events|relation"):
        sink.execute("SELECT * FROM events")


def test_a_table_under_the_name_is_refused_and_stays(sink):
    sink.execute("CREATE TABLE events_published (id bigint, name text, amount double precision)")
    sink.execute("INSERT INTO events_published VALUES (7, 'mine', 1.0)")
    with pytest.raises(InvalidStep, match="JDBC-021"):
        Owner(sink)
    assert sink.execute("SELECT * FROM events_published") == [(7, "mine", 1.0)]


def test_a_view_that_another_role_made_is_used_as_it_is(postgres_url):
    """Only the owner of a view may mark it; known by its text, it serves all the same."""
    sink = PostgresUnderTest(postgres_url, mode="outbox", table="events")
    as_before_marks(sink)
    sink.execute("DROP ROLE IF EXISTS someone_else")
    sink.execute("CREATE ROLE someone_else NOLOGIN")
    sink.execute("DROP ROLE IF EXISTS job_role")
    sink.execute("CREATE ROLE job_role LOGIN")
    ((schema,),) = sink.execute("SELECT current_schema()")
    sink.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO someone_else, job_role")
    sink.execute("ALTER VIEW events_published OWNER TO someone_else")
    for table in ("events", "millstream_part", "millstream_fence", "millstream_marker"):
        sink.execute(f"GRANT ALL ON {table} TO job_role")
        sink.execute(f"GRANT SELECT ON {table} TO someone_else")
    limited = PostgresUnderTest(postgres_url.replace("postgres@", "job_role@", 1), mode="outbox", table="events")
    try:
        Owner(limited, token=2).run(1, rows(2, 1))
        assert not is_marked(sink)
        assert seen(sink) == rows(0, 3)
    finally:
        limited.close()
        sink.close()
