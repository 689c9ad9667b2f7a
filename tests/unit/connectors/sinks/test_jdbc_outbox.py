"""An outbox: rows land with their epoch, and a view shows those that are published."""

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest
from tests.unit.connectors.sinks.under_test import Owner, rows, seen

from millstream.model.schema import schema_of


@pytest.fixture
def sink(open_sink):
    return open_sink(mode="outbox", table="events")


def test_rows_bear_their_epoch(sink):
    owner = Owner(sink)
    owner.run(0, rows(0, 2))
    owner.run(1, rows(2, 1), rows(3, 1))
    query = "SELECT id, ms_job, ms_lineage, ms_step, ms_epoch, ms_task, ms_seq FROM events_published ORDER BY id"
    assert sink.execute(query) == [
        (0, "job", "one", "out", 0, "0-0", 0),
        (1, "job", "one", "out", 0, "0-0", 1),
        (2, "job", "one", "out", 1, "0-0", 0),
        (3, "job", "one", "out", 1, "0-1", 0),
    ]


def test_rows_land_before_and_show_after_publishing(sink):
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0))
    assert sink.execute("SELECT count(*) FROM events") == [(10,)]
    assert seen(sink) == []
    owner.publish(0, transaction)
    assert sink.execute("SELECT count(*) FROM events") == [(10,)]
    assert seen(sink) == rows(0)


def test_rows_of_other_attempts_never_show(sink):
    owner = Owner(sink)
    kept = owner.prepare(0, rows(0))
    owner.stage(0, rows(0), attempt="lost")
    owner.publish(0, kept)
    assert seen(sink) == rows(0)
    assert sink.execute("SELECT count(*) FROM events") == [(20,)]
    owner.committer.recover(0)
    assert sink.execute("SELECT count(*) FROM events") == [(10,)]


def test_truncating_removes_rows_and_markers(sink):
    owner = Owner(sink)
    for epoch in range(4):
        owner.run(epoch, rows(epoch * 10))
    Owner(sink, lineage="two", token=2).committer.succeed([("one", 1)], "truncate")
    assert sink.execute("SELECT count(*) FROM events") == [(20,)]
    assert sink.execute("SELECT epoch FROM millstream_marker ORDER BY epoch") == [(0,), (1,)]


def test_a_new_column_appears_in_the_view(sink):
    Owner(sink).run(0, rows(0, 1))
    sink.execute("ALTER TABLE events ADD COLUMN note text")
    schema = schema_of("id long, name string, amount double, note string")
    Owner(sink, token=2, schema=schema).run(1, [{**rows(1, 1)[0], "note": "new"}])
    assert sink.execute("SELECT id, note FROM events_published ORDER BY id") == [(0, None), (1, "new")]


def test_the_view_finds_an_epoch_by_index(postgres_url):
    sink = PostgresUnderTest(postgres_url, mode="outbox", table="events")
    owner = Owner(sink)
    for epoch in range(40):
        owner.run(epoch, rows(epoch * 200, 200))
    sink.execute("ANALYZE")
    where = "ms_job = 'job' AND ms_step = 'out' AND ms_lineage = 'one' AND ms_epoch = 7"
    plan = "\n".join(line for (line,) in sink.execute(f"EXPLAIN SELECT * FROM events_published WHERE {where}"))
    assert "events_part" in plan, plan
    sink.close()
