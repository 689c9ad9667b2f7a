"""A look at a table before a job runs leaves neither slot nor publication, and shows rows as a copy would."""

import pytest

import millstream as ms
from millstream.errors import StepFailed
from millstream.inspect.connectors.trying import try_step


def look(source, limit=2):
    job = ms.Job("looked-at", guarantee="at_least_once")
    job.source("in", source.spec, schema=source.schema)
    return try_step(job, "in", limit=limit, seconds=5)


def test_rows_are_shown_and_nothing_is_made(make_source, open_owner):
    source = make_source(count=5)
    shown = look(source)
    assert [(row["op"], row["id"]) for row in shown.rows] == [("read", 0), ("read", 1)]
    assert shown.bad == []
    for column, place in (("slot_name", "pg_replication_slots"), ("pubname", "pg_publication")):
        assert (source.slot,) not in source.do(f"SELECT {column} FROM {place}")
    opened = open_owner(source)
    start, rows = opened.initial(), []
    while len(rows) < 5:
        advance = opened.advance(start, 100)
        rows += opened.read(start, advance.position)
        start = advance.position
    expected = {row["id"]: {**row, "lsn": None} for row in rows}
    assert [{**row, "lsn": None} for row in shown.rows] == [expected[row["id"]] for row in shown.rows]


def test_a_table_that_is_not_there_is_named(make_source):
    source = make_source()
    source.do(f"DROP TABLE {source.table}")
    with pytest.raises(StepFailed, match="CDC-004"):
        look(source)
