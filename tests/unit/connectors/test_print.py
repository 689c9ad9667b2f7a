import json

import pytest

from millstream.connectors.print.sink import PrintCommitter, PrintWriter
from millstream.connectors.print.spec import DECLARATION, print_rows
from millstream.contract.sink import SinkContext, SinkTask
from millstream.model.connector import checked_options
from millstream.model.guarantee import SinkCapability
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_text, rows_to_batch

SCHEMA = schema_of("name string, n long")


def published(capsys, groups, **options):
    checked = checked_options(DECLARATION.sink.options, print_rows(**options).options, step="out", name="print")
    messages = []
    for number, rows in enumerate(groups):
        task = SinkTask(job="j", lineage="L", step="out", epoch=3, task=f"0-{number}", attempt="a")
        writer = PrintWriter(checked, SCHEMA, task)
        for row in rows:
            writer.write(rows_to_batch([row], SCHEMA))
        message = writer.finish()
        if message is not None:
            messages.append(json.loads(json.dumps(message)))
    committer = PrintCommitter(checked, SinkContext(job="j", lineage="L", step="out", schema=SCHEMA))
    transaction = committer.prepare(3, messages)
    assert capsys.readouterr().out == ""
    committer.publish(3, json.loads(json.dumps(transaction)))
    return capsys.readouterr().out


def rows(*numbers):
    return [{"name": "x" * n, "n": n} for n in numbers]


def test_a_table_is_aligned(capsys):
    assert published(capsys, [rows(1, 10), [{"name": None, "n": None}]]).splitlines() == [
        "-- out, epoch 3: 3 rows",
        "name           n",
        "x              1",
        "xxxxxxxxxx    10",
        "null        null",
    ]


def test_the_limit_counts_over_all_tasks(capsys):
    out = published(capsys, [rows(1, 2), rows(3, 4, 5)], limit=3).splitlines()
    assert out[0] == "-- out, epoch 3: 5 rows"
    assert [line.split()[-1] for line in out[2:5]] == ["1", "2", "3"]
    assert out[5:] == ["... 2 more"]


def test_json_lines(capsys):
    out = published(capsys, [rows(1), rows(2)], format="json", limit=None)
    assert [json.loads(line) for line in out.splitlines()] == rows(1, 2)


@pytest.mark.parametrize("kind", ["table", "json"])
def test_an_epoch_without_rows_prints_nothing(capsys, kind):
    assert published(capsys, [[]], format=kind) == ""


def test_long_cells_are_cut(capsys):
    (line,) = published(capsys, [[{"name": "a\n" + "b" * 100, "n": 1}]]).splitlines()[2:]
    assert line == "a\\n" + "b" * 34 + "...  1"


def test_a_fence_and_a_succession_hold_off_nobody(capsys):
    checked = checked_options(DECLARATION.sink.options, print_rows().options, step="out", name="print")
    stale, fresh = (
        PrintCommitter(checked, SinkContext(job="j", lineage="L", step="out", schema=SCHEMA, token=token))
        for token in (1, 2)
    )
    fresh.fence()
    fresh.succeed([("K", 3)], "truncate")
    assert capsys.readouterr().out == ""
    stale.fence()
    stale.publish(1, stale.prepare(1, [{"rows": 1, "data": batch_to_text(rows_to_batch(rows(1), SCHEMA))}]))
    assert "epoch 1: 1 rows" in capsys.readouterr().out
    assert DECLARATION.sink.capability is SinkCapability.AT_LEAST_ONCE
