import json
import math

import pytest

from millstream.connectors.collect.sink import CollectCommitter, CollectWriter, clear, collected, collected_table
from millstream.connectors.collect.spec import DECLARATION, collect
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import CheckpointRefused
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch

SCHEMA = schema_of("n long, f double")


@pytest.fixture
def name(request):
    yield request.node.name
    clear(request.node.name)


def options(name):
    return checked_options(DECLARATION.sink.options, collect(name).options, step="out", name="collect")


def message(name, rows, task="0-0", cut=1):
    writer = CollectWriter(
        options(name), SCHEMA, SinkTask(job="j", lineage="L", step="out", epoch=1, task=task, attempt="a")
    )
    for start in range(0, len(rows), cut):
        writer.write(rows_to_batch(rows[start : start + cut], SCHEMA))
    return json.loads(json.dumps(writer.finish()))


def committer(name, *, lineage="L", step="out"):
    return CollectCommitter(options(name), SinkContext(job="j", lineage=lineage, step=step, schema=SCHEMA))


def rows(*numbers):
    return [{"n": n, "f": n / 2} for n in numbers]


def test_nothing_is_visible_before_publish(name):
    sink = committer(name)
    transaction = sink.prepare(1, [message(name, rows(1, 2))])
    assert collected(name) == []
    sink.publish(1, json.loads(json.dumps(transaction)))
    assert collected(name) == rows(1, 2)


def test_rows_keep_the_order_of_messages_and_epochs(name):
    sink = committer(name)
    sink.publish(1, sink.prepare(1, [message(name, rows(3)), message(name, rows(1))]))
    sink.publish(2, sink.prepare(2, [message(name, rows(2))]))
    assert [row["n"] for row in collected(name)] == [3, 1, 2]
    assert collected_table(name).column("n").to_pylist() == [3, 1, 2]


def test_publishing_again_changes_nothing_even_when_cut_otherwise(name):
    sink = committer(name)
    content = [*rows(1, 2), {"n": 3, "f": math.nan}]
    sink.publish(1, sink.prepare(1, [message(name, content, cut=1)]))
    sink.publish(1, sink.prepare(1, [message(name, content, cut=3)]))
    assert [row["n"] for row in collected(name)] == [1, 2, 3]


def test_other_content_for_a_published_epoch_is_refused(name):
    sink = committer(name)
    sink.publish(1, sink.prepare(1, [message(name, rows(1))]))
    with pytest.raises(CheckpointRefused, match="epoch 1"):
        sink.publish(1, sink.prepare(1, [message(name, rows(2))]))
    assert collected(name) == rows(1)


def test_steps_and_lineages_share_a_name_without_collision(name):
    for lineage, step, number in [("L", "out", 1), ("L", "late", 2), ("M", "out", 3)]:
        sink = committer(name, lineage=lineage, step=step)
        sink.publish(1, sink.prepare(1, [message(name, rows(number))]))
    assert [row["n"] for row in collected(name)] == [1, 2, 3]


def test_a_task_without_rows_has_no_message(name):
    assert message(name, []) is None
    sink = committer(name)
    sink.publish(1, sink.prepare(1, []))
    assert collected_table(name).schema == SCHEMA.arrow


def test_clear_forgets_only_its_name(name):
    for each in (name, f"{name}-other"):
        sink = committer(each)
        sink.publish(1, sink.prepare(1, [message(each, rows(1))]))
    clear(name)
    assert collected(name) == []
    assert collected(f"{name}-other") == rows(1)
    clear(f"{name}-other")
