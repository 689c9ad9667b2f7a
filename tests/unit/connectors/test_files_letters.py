"""Rows that are removed from published files, by two who do so at the same time."""

from tests.unit.connectors.test_files_sink import SCHEMA, Sink, rows

from millstream.connectors.files.letters import read_back, remove


def test_two_who_remove_at_once_undo_nothing_of_each_other(tmp_path):
    sink = Sink(tmp_path)
    messages = [sink.staged(rows(1), task="0-0"), sink.staged(rows(2), task="0-1")]
    sink.committer.publish(1, sink.committer.prepare(1, messages))
    sink.published(rows(3), epoch=2)
    who = {"job": "j", "step": "out"}
    answers = []

    def second(row):
        if not answers:  # its lists are read: now the other one comes first
            answers.append(remove(sink.options, SCHEMA, lambda each: each["n"] == 1, **who))
        return row["n"] == 2

    assert remove(sink.options, SCHEMA, second, **who).rows == 1
    assert answers[0].rows == 1
    left = [row["n"] for batch in read_back(sink.options, SCHEMA, **who) for row in batch.to_pylist()]
    assert left == [3]
