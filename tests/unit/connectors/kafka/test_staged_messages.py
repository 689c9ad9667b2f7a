"""Messages that wait: their digest, and what is noticed when their files were changed."""

import pyarrow as pa
import pytest

from millstream.connectors.kafka.outgoing.messages import HEADERS
from millstream.connectors.kafka.outgoing.staging import (
    ContentDigest,
    StagedMessages,
    check_staged,
    read_staged,
)
from millstream.connectors.staged_rows import remove_staged, staged_leftovers
from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused
from millstream.model.ids import Epoch

BATCH = pa.record_batch(
    {
        "value": pa.array([b"a", None, b"", b"bc", b"d"], pa.binary()),
        "key": pa.array([b"k", b"", None, b"k", b"l"], pa.binary()),
        "topic": pa.array(["x", "y", "x", "x", "x"]),
        "timestamp": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "headers": pa.array([[("h", b"1")], None, [], [("h", None), ("h", b"2")], []], HEADERS),
    }
)


def digest_of(*batches):
    digest = ContentDigest()
    for batch in batches:
        digest.add(batch)
    return digest.text()


@pytest.mark.parametrize("cut", range(6))
def test_a_digest_does_not_know_how_rows_were_cut(cut):
    assert digest_of(BATCH.slice(0, cut), BATCH.slice(cut)) == digest_of(BATCH)


def test_a_digest_knows_everything_else():
    def changed(name, values, kind=None):
        place = BATCH.schema.get_field_index(name)
        return BATCH.set_column(place, name, pa.array(values, kind or BATCH.schema.field(name).type))

    others = [
        changed("value", [b"a", b"", b"", b"bc", b"d"]),
        changed("value", [b"a", None, b"", b"b", b"cd"]),
        changed("key", [b"k", b"", None, b"l", b"k"]),
        changed("topic", ["x", "x", "x", "x", "x"]),
        changed("timestamp", [1, 2, 3, 4, 6]),
        changed("headers", [[("h", b"1")], None, [], [("h", b"2"), ("h", None)], []]),
        changed("headers", [[("h", b"1")], None, [("h", None)], [("h", b"2")], []]),
        BATCH.slice(0, 4),
        BATCH.drop_columns(["headers"]),
    ]
    digests = {digest_of(other) for other in others} | {digest_of(BATCH)}
    assert len(digests) == len(others) + 1


def task(folder, *, epoch=0, token=1, attempt="a"):
    identity = {"job": "job", "lineage": "one", "step": "out", "task": "0-0"}
    return SinkTask(**identity, epoch=Epoch(epoch), token=token, attempt=attempt, staging=str(folder))


def staged(folder, **who):
    messages = StagedMessages(task(folder, **who), BATCH.schema)
    messages.write(BATCH)
    messages.write(BATCH.slice(1, 2))
    return messages.finish()


def test_what_is_staged_is_read(tmp_path):
    message = staged(tmp_path / "deep" / "er")
    read = pa.Table.from_batches(read_staged(str(tmp_path / "deep" / "er"), message))
    assert read.equals(pa.Table.from_batches([BATCH, BATCH.slice(1, 2)]))
    assert message["rows"] == 7
    check_staged(str(tmp_path / "deep" / "er"), [message], epoch=0, step="out")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"bc", b"cb")), "other content"),
    ],
    ids=["removed", "cut", "overwritten", "one byte"],
)
def test_a_changed_file_is_refused(tmp_path, change, found):
    message = staged(tmp_path)
    change(tmp_path / message["file"])
    with pytest.raises(CheckpointRefused, match=rf"KAFKA-022.*{found}"):
        check_staged(str(tmp_path), [message], epoch=0, step="out")


def test_leftovers_are_those_of_this_owner_and_earlier_ones(tmp_path):
    mine = [staged(tmp_path, epoch=epoch, token=token)["file"] for epoch, token in ((3, 1), (4, 2))]
    later = staged(tmp_path, epoch=4, token=12)["file"]
    (tmp_path / "marks.json").write_text("{}")
    assert staged_leftovers(str(tmp_path), token=2) == sorted(mine)
    remove_staged(str(tmp_path), staged_leftovers(str(tmp_path), token=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([later, "marks.json"])
    assert staged_leftovers(str(tmp_path / "nowhere"), token=9) == []
    remove_staged(str(tmp_path / "nowhere"), ["gone.arrow"])


def test_an_aborted_file_is_gone(tmp_path):
    messages = StagedMessages(task(tmp_path), BATCH.schema)
    messages.write(BATCH)
    messages.abort()
    assert list(tmp_path.iterdir()) == []
