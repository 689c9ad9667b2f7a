"""Direct writing: rows are visible when a task ends, and the fence holds all the same."""

import dataclasses

import pytest
from tests.unit.connectors.sinks.under_test import SCHEMA, context, rows, seen

from millstream.connectors.jdbc.committer import JdbcCommitter
from millstream.connectors.jdbc.writer import JdbcDirectWriter
from millstream.contract.sink import SinkTask
from millstream.errors import Fenced, StepFailed
from millstream.records.codecs import rows_to_batch


class DirectOwner:
    """A run whose tasks write directly."""

    def __init__(self, sink, token=1):
        self.sink = sink
        self.context = dataclasses.replace(context(token=token), is_direct=True)
        self.committer = JdbcCommitter(sink.options, self.context)
        self.committer.fence()

    def write(self, epoch, content, task="0-0"):
        who = self.context
        named = SinkTask(
            job=who.job, lineage=who.lineage, step=who.step, epoch=epoch, task=task, attempt="a", token=who.token
        )
        writer = JdbcDirectWriter(self.sink.options, SCHEMA, named)
        for start in range(0, len(content), 4):
            writer.write(rows_to_batch(content[start : start + 4], SCHEMA))
        return writer.finish()

    def close(self):
        self.committer.close()


@pytest.fixture
def owner_of():
    opened = []

    def open_owner(sink, token=1):
        opened.append(DirectOwner(sink, token))
        return opened[-1]

    yield open_owner
    for each in opened:
        each.close()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_many_rows_are_sent_in_pieces_of_one_transaction(open_sink, owner_of, statements, mode):
    sink = open_sink(mode=mode, batch_rows=7)
    assert owner_of(sink).write(0, rows(0, 30)) == {"rows": 30}
    assert statements == [7, 7, 7, 7, 2]
    assert seen(sink) == rows(0, 30)


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_rows_are_visible_when_the_task_ends(open_sink, owner_of, mode):
    sink = open_sink(mode=mode)
    owner = owner_of(sink)
    messages = [owner.write(0, rows(0)), owner.write(0, rows(10), task="0-1")]
    assert messages == [{"rows": 10}, {"rows": 10}]
    assert seen(sink) == rows(0, 20)
    transaction = owner.committer.prepare(0, messages)
    assert transaction == {"rows": 20}
    owner.committer.publish(0, transaction)
    owner.committer.discard(messages)
    owner.committer.recover(0)
    assert seen(sink) == rows(0, 20)


def test_a_repeated_task_replaces_its_rows_by_key(open_sink, owner_of):
    sink = open_sink(mode="upsert")
    owner = owner_of(sink)
    owner.write(0, [*rows(0), {"id": 0, "name": "last", "amount": None}])
    owner.write(0, [*rows(0), {"id": 0, "name": "last", "amount": None}])
    assert seen(sink) == [{"id": 0, "name": "last", "amount": None}, *rows(1, 9)]


def test_a_repeated_task_adds_its_rows_again_without_keys(open_sink, owner_of):
    sink = open_sink()
    owner = owner_of(sink)
    owner.write(0, rows(0, 1))
    owner.write(0, rows(0, 1))
    assert seen(sink) == [*rows(0, 1), *rows(0, 1)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_stale_task_writes_nothing(open_sink, owner_of, mode):
    sink = open_sink(mode=mode)
    stale = owner_of(sink, token=1)
    owner_of(sink, token=2).write(0, rows(0))
    with pytest.raises(Fenced) as fenced:
        stale.write(0, rows(50))
    assert (fenced.value.found, fenced.value.known) == ("token 1", "token 2")
    assert seen(sink) == rows(0)


def test_a_task_of_a_later_owner_raises_the_fence_itself(open_sink, owner_of):
    sink = open_sink()
    stale = owner_of(sink, token=1)
    later = owner_of(sink, token=1)
    later.context = dataclasses.replace(later.context, token=3)
    later.write(0, rows(0))
    with pytest.raises(Fenced):
        stale.write(1, rows(50))
    assert seen(sink) == rows(0)


def test_a_task_without_rows_and_an_aborted_one_leave_nothing(open_sink, owner_of):
    sink = open_sink()
    owner = owner_of(sink)
    assert owner.write(0, []) is None
    task = SinkTask(job="job", lineage="one", step="out", epoch=0, task="0-0", attempt="a")
    writer = JdbcDirectWriter(sink.options, SCHEMA, task)
    writer.write(rows_to_batch(rows(0), SCHEMA))
    writer.abort()
    assert seen(sink) == []


def test_all_rows_of_a_task_are_written_or_none(open_sink, owner_of):
    sink = open_sink()
    sink.execute("CREATE TABLE target (id bigint PRIMARY KEY, name text, amount double precision)")
    with pytest.raises(StepFailed):
        owner_of(sink).write(0, [*rows(0), *rows(9)])
    assert seen(sink) == []
