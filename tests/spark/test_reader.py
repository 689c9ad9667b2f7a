"""State that Spark keeps, read through a reader process: Spark does not come into the process that asks."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from tests.spark.test_start import holders, wait_until
from typer.testing import CliRunner

import millstream as ms
from millstream.cli.main import app
from millstream.driver import engine
from millstream.driver.reader_client import READER, read_by_reader
from millstream.errors import CheckpointRefused
from millstream.inspect.state.stored import open_state

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROWS = 30


def job(out, source):
    built = ms.Job("read", rows_per_epoch=10, parallelism=2, epoch_interval="50ms")
    rows = built.source("rows", source).with_columns(user="value % 7")
    totals = rows.key_by("user").aggregate(total=ms.sum("value"), n=ms.count(), emit="row", id="totals")
    totals.key_by("total").aggregate(m=ms.count(), emit="row", id="sizes").sink("out", ms.files(out))
    return built


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of a finished job; Spark runs in this process, where it was made."""
    root = tmp_path_factory.mktemp("read")
    source = ms.datagen(rows=ROWS, fields={"value": {"kind": "sequence"}})
    job(root / "out", source).run(checkpoint=root / "checkpoint", master="local[2]")
    return root / "checkpoint"


@pytest.fixture(scope="module")
def by_reader(checkpoint):
    """This process asks a reader, as if it had no Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "has_context", lambda: False)
        yield
        READER.close()


def expected(count=ROWS):
    return {user: (sum(range(user, count, 7)), len(range(user, count, 7))) for user in range(min(7, count))}


def totals(where, epoch=None):
    rows = ms.read_state(where, "totals", epoch).to_pylist()
    return {row["user"]: tuple(json.loads(row["running"])) for row in rows}


def files_of(where, **changes):
    """Folder and manifest of the newest epoch, as the engine gets them."""
    files = open_state(where).files
    return files.folder, msgspec.structs.replace(files.manifest, **changes)


def test_two_readings_share_one_reader_and_the_second_is_quicker(checkpoint, by_reader):
    READER.close()
    began = time.monotonic()
    assert totals(checkpoint) == expected()
    first, pid = time.monotonic() - began, READER.pid
    began = time.monotonic()
    assert ms.read_state(checkpoint, "sizes").num_rows > 0
    second = time.monotonic() - began
    assert READER.pid == pid
    assert second < first / 2


def test_it_gives_what_spark_in_this_process_gives(checkpoint, by_reader):
    from millstream.driver.reading import read_level

    folder, manifest = files_of(checkpoint)
    for level in (1, 2):
        here, there = dict(read_level(folder, manifest, level)), dict(read_by_reader(folder, manifest, level))
        assert here.keys() == there.keys()
        for subtask, pages in here.items():
            assert {name: pages.get(name) for name in pages} == {name: there[subtask].get(name) for name in pages}
            assert set(there[subtask]) == set(pages)


def test_only_pages_that_are_wanted_are_read(checkpoint, by_reader):
    folder, manifest = files_of(checkpoint)
    names = {name for _, pages in read_by_reader(folder, manifest, 1, prefix="totals/directory") for name in pages}
    assert names == {"totals/directory"}
    assert list(read_by_reader(folder, manifest, 1, prefix="nothing/")) == []


def test_an_epoch_that_spark_does_not_retain_is_refused_as_ever(checkpoint, by_reader):
    with pytest.raises(CheckpointRefused, match="known: epochs") as refused:
        list(read_by_reader(*files_of(checkpoint, epoch=99), 1))
    assert (refused.value.code, refused.value.found) == ("CKPT-055", "99")
    assert totals(checkpoint) == expected()


def test_damaged_state_is_refused_as_ever(checkpoint, by_reader, tmp_path):
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    for file in copy.glob("spark/*/state/*/*/*.changelog"):
        file.write_bytes(file.read_bytes()[:-5] + b"wrong")
    with pytest.raises(CheckpointRefused, match="is damaged") as refused:
        totals(copy)
    assert refused.value.code == "CKPT-056"


def test_a_reader_that_was_killed_between_two_readings_is_replaced(checkpoint, by_reader):
    totals(checkpoint)
    killed = READER.pid
    os.kill(killed, signal.SIGKILL)
    assert totals(checkpoint) == expected()
    assert READER.pid != killed


def test_a_native_savepoint_is_read(checkpoint, by_reader, tmp_path):
    words = ["savepoint", "create", str(checkpoint), "--native", "--to", str(tmp_path), "--id", "n"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert totals(tmp_path / "savepoint-n") == expected()


def test_the_state_of_a_running_job_is_read(by_reader, tmp_path):
    running = job(tmp_path / "out", ms.rate(100)).start(checkpoint=tmp_path / "checkpoint", master="local[2]")
    try:
        wait_until(lambda: len(running.epochs) > 2 or not running.is_running, 120)
        state = open_state(tmp_path / "checkpoint")
        rows = sum(epoch.rows_in for epoch in running.epochs if epoch.epoch <= state.epoch)
        assert totals(tmp_path / "checkpoint", state.epoch) == expected(rows)
        assert running.is_running
    finally:
        running.cancel(timeout=60)


ASKING = """
import json, os, sys, time
import millstream as ms
from typer.testing import CliRunner
from millstream.cli.main import app
from millstream.driver.reader_client import READER

where = sys.argv[1]
outputs = []
for words in (["ls", where, "--count"], ["get", where, "totals", "3"], ["diff", where, where]):
    done = CliRunner().invoke(app, ["state", *words, "--json"])
    outputs.append([done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]])
rows = ms.read_state(where, "totals").num_rows
print(json.dumps({"outputs": outputs, "rows": rows, "reader": READER.pid, "pyspark": "pyspark" in sys.modules}), flush=True)
time.sleep(300)
"""


def test_who_asks_has_no_pyspark_and_nothing_outlives_its_sudden_end(checkpoint):
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as folder:
        command = [sys.executable, "-c", ASKING, str(checkpoint)]
        env = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            told = json.loads(process.stdout.readline())
            assert not told["pyspark"]
            assert len(holders(folder)) > 2, "a reader and its JVM"
            os.kill(process.pid, signal.SIGKILL)
        (listed, got, same) = told["outputs"]
        assert [row["keys"] for row in listed[1] if row["step"] == "totals"] == [7]
        assert [tuple(json.loads(row["running"])) for row in got[1]] == [expected()[3]]
        assert (listed[0], got[0], same[0], told["rows"]) == (0, 0, 0, 7)
        wait_until(lambda: holders(folder) == [], 10)
        assert not list(Path(folder).glob("millstream-*/run-*")), "it tidied up"
