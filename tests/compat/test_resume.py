"""What an earlier version stored is resumed: the rows are those of a run that version finished undisturbed.

A folder holds what one commit left on each engine when it was killed in epoch 5, its manifest just written: the checkpoint,
a savepoint of each form, the output so far, and the rows of an undisturbed run.
"""

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from tests.compat import job as described

import millstream as ms
from millstream.spark.files.operator_files import relocate

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").exists())


@pytest.fixture(params=VERSIONS)
def stored(request, tmp_path, monkeypatch):
    """Unpacks what a version left on an engine; the job's paths are relative to it."""

    def unpack(engine):
        with tarfile.open(HERE / request.param / f"{engine}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        described.write_input(tmp_path / "in")
        monkeypatch.chdir(tmp_path)
        return json.loads((HERE / request.param / "expected.json").read_text())

    return unpack


def check(expected):
    found = {path.name: _texts(path) for path in sorted(Path("out").iterdir())}
    assert found.keys() == expected.keys()
    for sink, rows in expected.items():
        assert Counter(found[sink]) == Counter(rows), sink


def _texts(path):
    return [json.dumps(row, sort_keys=True, default=str) for row in ms.read_files(str(path)).to_pylist()]


def test_a_checkpoint_is_resumed_locally(stored):
    expected = stored("local")
    result = described.build().run(local=True, checkpoint="checkpoint")
    assert result.resumed_from == 5
    check(expected)


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_savepoint_is_resumed_locally(stored, form):
    expected = stored("local")
    result = described.build().run(
        local=True, checkpoint="fresh", from_savepoint=f"savepoints/savepoint-{form}", on_newer_output="truncate"
    )
    assert 0 < result.rows_in < described.ROWS
    check(expected)


def test_a_savepoint_of_spark_is_resumed_locally(stored):
    expected = stored("spark")
    described.build().run(
        local=True, checkpoint="fresh", from_savepoint="savepoints/savepoint-canonical", on_newer_output="truncate"
    )
    check(expected)


@pytest.mark.spark
def test_a_checkpoint_is_resumed_on_spark(stored, spark):
    expected = stored("spark")
    # Spark names the files of its state by their whole paths.
    for folder in Path("checkpoint/spark").iterdir():
        relocate(folder.resolve())
    result = described.build().run(checkpoint="checkpoint")
    assert result.resumed_from == 5
    check(expected)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_savepoint_is_resumed_on_spark(stored, spark, form):
    expected = stored("spark")
    described.build().run(checkpoint="fresh", from_savepoint=f"savepoints/savepoint-{form}", on_newer_output="truncate")
    check(expected)
