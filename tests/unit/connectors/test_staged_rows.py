"""Rows that wait for their epoch: found as they were written, however they were cut, or refused."""

import pyarrow as pa
import pytest
from tests.unit.connectors.sinks.under_test import EXTREMES, VALUES, rows

from millstream.connectors.row_digest import RowsDigest
from millstream.connectors.staged_rows import (
    StagedRows,
    check_staged,
    remove_staged,
    staged_batches,
    staged_epoch,
    staged_leftovers,
)
from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows, rows_to_batch

SCHEMA = schema_of("id long, name string, amount double")
WHOLE = rows_to_batch(EXTREMES, VALUES)


def digest(*batches):
    made = RowsDigest()
    for batch in batches:
        made.add(batch)
    return made.text()


@pytest.mark.parametrize("cut", range(1, WHOLE.num_rows))
def test_a_digest_does_not_depend_on_where_rows_are_cut(cut):
    assert digest(WHOLE.slice(0, cut), WHOLE.slice(cut)) == digest(WHOLE)


def test_what_lies_under_a_null_does_not_count():
    plain = pa.array([1, None], pa.int64())
    dirty = pa.Array.from_buffers(
        pa.int64(), 2, [plain.buffers()[0], pa.py_buffer(b"\x01" + b"\0" * 7 + b"\x63" + b"\0" * 7)]
    )
    assert dirty.equals(plain)
    assert digest(pa.record_batch({"n": dirty})) == digest(pa.record_batch({"n": plain}))


@pytest.mark.parametrize("name", VALUES.names)
def test_every_column_counts(name):
    others = [{**row, name: None} for row in EXTREMES]
    assert digest(rows_to_batch(others, VALUES)) != digest(WHOLE)


def test_order_and_borders_count():
    texts = [["ab", "c"], ["a", "bc"], ["c", "ab"], ["abc", ""], ["abc", None]]
    assert len({digest(pa.record_batch({"t": pa.array(each, pa.string())})) for each in texts}) == len(texts)


def task(folder, number=0, attempt="a", token=1):
    who = {"job": "job", "lineage": "one", "step": "out"}
    return SinkTask(**who, epoch=3, task=f"0-{number}", attempt=attempt, token=token, staging=str(folder))


def staged(folder, content, pieces=3, **options):
    made = StagedRows(task(folder, **options), SCHEMA.arrow)
    for start in range(0, len(content), pieces):
        made.write(rows_to_batch(content[start : start + pieces], SCHEMA))
    return made.finish()


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_rows_are_cut_in_the_same_places_however_they_were_written(tmp_path, size):
    cuts = [
        [batch_to_rows(batch) for batch in staged_batches(str(tmp_path), staged(tmp_path, rows(0, 20), pieces), size)]
        for pieces in (1, 3, 20)
    ]
    assert cuts[0] == cuts[1] == cuts[2]
    assert [len(each) for each in cuts[0][:-1]] == [size] * (len(cuts[0]) - 1)
    assert [row for cut in cuts[0] for row in cut] == rows(0, 20)


def test_an_epoch_is_the_same_under_other_attempts_and_in_the_order_of_tasks(tmp_path):
    first = staged_epoch([staged(tmp_path, rows(number), number=number) for number in (10, 9, 2)])
    second = staged_epoch([staged(tmp_path, rows(number), number=number, attempt="b") for number in (2, 10, 9)])
    assert [file["task"] for file in first["files"]] == ["0-2", "0-9", "0-10"]
    assert first["digest"] == second["digest"]
    assert first["rows"] == 30
    assert staged_epoch([]) == {"rows": 0, "digest": staged_epoch([])["digest"], "files": []}


def _cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def _exchange(path):
    other = staged(path.parent, rows(90), attempt="other")
    (path.parent / other["file"]).rename(path)


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), _cut, _exchange], ids=["gone", "cut", "other rows"])
def test_what_is_not_as_it_was_written_is_refused(tmp_path, damage):
    file = staged(tmp_path, rows(0))
    check_staged(str(tmp_path), [file], epoch=3, step="out")
    damage(tmp_path / file["file"])
    with pytest.raises(CheckpointRefused, match="SINK-010"):
        check_staged(str(tmp_path), [file], epoch=3, step="out")


@pytest.mark.parametrize("name", ["../outside.arrow", "/etc/passwd", "", "a/../../b", "..\\up"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    file = {"file": name, "rows": 1, "digest": "", "task": "0-0"}
    for call in (
        lambda: check_staged(str(tmp_path), [file], epoch=3, step="out"),
        lambda: remove_staged(str(tmp_path), [name]),
        lambda: next(staged_batches(str(tmp_path), file, 10)),
    ):
        with pytest.raises(CheckpointRefused, match="CKPT-061"):
            call()


def test_leftovers_are_those_of_this_owner_and_earlier_ones(tmp_path):
    files = [staged(tmp_path, rows(0), token=token)["file"] for token in (1, 2, 3)]
    (tmp_path / "mine.txt").write_text("not ours")
    assert staged_leftovers(str(tmp_path), token=2) == files[:2]
    remove_staged(str(tmp_path), [*files[:2], "00000001-1-0-0-gone.arrow"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([files[2], "mine.txt"])
    assert staged_leftovers(str(tmp_path / "nowhere"), token=9) == []
