"""Runs beside savepoints, drains, changed jobs and real kills; and what people see of them."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.runs.inputs import SCHEMA, FilesInput
from typer.testing import CliRunner

import millstream as ms
from millstream.cli.main import app
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused

ROOT = Path(__file__).parents[3]


@pytest.fixture
def data(tmp_path):
    return FilesInput(tmp_path / "files")


def job_of(data, place, parallelism=2, **options):
    job = ms.Job("stories", rows_per_epoch=2, parallelism=parallelism, **options)
    rows = job.source("rows", data.connector(), schema=SCHEMA)
    rows.sink("all", ms.files(place / "out", format="json"))
    rows.key_by("k").aggregate(total=ms.sum("n"), emit="end", id="totals").sink("totals", ms.collect("stories"))
    return job


def written(place):
    return Counter(row["id"] for row in ms.read_files(place / "out").to_pylist())


def totals(rows):
    sums = Counter()
    for row in rows:
        sums[row["k"]] += row["n"]
    return dict(sums)


def last_totals():
    return {row["k"]: row["total"] for row in collected("stories")}


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_savepoint_inside_a_run_goes_on_with_it(data, tmp_path):
    checkpoint, elsewhere = tmp_path / "c", tmp_path / "e"
    job_of(data, tmp_path, carry="position").run(local=True, checkpoint=checkpoint)
    data.add(8)
    running = job_of(data, tmp_path, carry="position").start(local=True, checkpoint=checkpoint)
    savepoint = running.ask("suspend", id="half").wait(30).path
    running.wait(30)
    wider = job_of(data, tmp_path, parallelism=3, carry="position")
    result = wider.run(local=True, checkpoint=elsewhere, from_savepoint=savepoint)
    assert result.run == 2
    assert written(tmp_path) == Counter(list(data.rows))
    again = wider.run(local=True, checkpoint=elsewhere, from_savepoint=savepoint)
    assert (again.run, again.rows_in) == (3, 0), "the savepoint is restored once; this is the next run"
    data.add(1)
    assert wider.run(local=True, checkpoint=elsewhere, from_savepoint=savepoint).rows_in == 1
    assert written(tmp_path) == Counter(list(data.rows))


def test_a_job_may_change_between_runs_as_it_may_through_savepoints(data, tmp_path):
    clear("stories")
    job_of(data, tmp_path, carry="state").run(local=True, checkpoint=tmp_path / "c")
    data.add(3)
    clear("stories")
    result = job_of(data, tmp_path, parallelism=5, carry="state").run(local=True, checkpoint=tmp_path / "c")
    assert (result.run, last_totals()) == (2, totals(data.all))
    other = ms.Job("stories", carry="state")
    rows = other.source("rows", data.connector(), schema=SCHEMA)
    rows.key_by("k").aggregate(total=ms.max("n"), emit="end", id="totals").sink("totals", ms.collect("stories"))
    with pytest.raises(CheckpointRefused, match="does not fit") as refused:
        other.run(local=True, checkpoint=tmp_path / "c")
    assert refused.value.code == "CKPT-040"
    assert other.run(local=True, checkpoint=tmp_path / "c", carry="position").run == 3


def test_a_job_without_an_end_goes_on_behind_a_drain(tmp_path):
    clear("stories")

    def started():
        job = ms.Job("stories", rows_per_epoch=100, carry="state")
        ticks = job.source("ticks", ms.rate(10_000)).with_columns(k="value % 2")
        ticks.key_by("k").aggregate(n=ms.count(), emit="end", id="n").sink("out", ms.collect("stories"))
        running = job.start(local=True, checkpoint=tmp_path / "c")
        while not running.epochs:
            assert running.is_running
        return running.drain(30)

    counts = []
    for number in (1, 2):
        clear("stories")
        result = started()
        assert (result.run, result.ended) == (number, "drained")
        counts.append(result.rows_in)
        assert sum(row["n"] for row in collected("stories")) == sum(counts)


def test_what_a_complete_run_left_to_publish_is_published_before_another_one_begins(data, tmp_path, failpoints):
    clear("stories")
    checkpoint, job = tmp_path / "c", job_of(data, tmp_path, carry="nothing")
    failpoints("durable:2:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        job.run(local=True, checkpoint=checkpoint)
    failpoints("")
    assert collected("stories") == [], "the last epoch is durable, and not published"
    expected = Counter(map(str, ({"k": k, "total": total} for k, total in totals(data.all).items())))
    failpoints("lineage_raised:2:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        job.run(local=True, checkpoint=checkpoint)
    failpoints("")
    assert Counter(map(str, collected("stories"))) == expected
    assert job.run(local=True, checkpoint=checkpoint).run == 2
    assert Counter(map(str, collected("stories"))) == expected + expected
    assert written(tmp_path) == Counter(list(data.rows)) + Counter(list(data.rows))


def test_people_see_the_runs_of_a_checkpoint(data, tmp_path, failpoints):
    checkpoint = tmp_path / "c"
    job = job_of(data, tmp_path, carry="position", params={"day": "date"})
    job.run(local=True, checkpoint=checkpoint, params={"day": "2024-01-01"}, run_id="monday")
    data.add(4)
    failpoints("published:1:raise")
    with pytest.raises(ms.MillstreamError):
        job.run(local=True, checkpoint=checkpoint, params={"day": "2024-01-02"}, run_id="tuesday")
    failpoints("")
    result = command("runs", checkpoint, "--json")
    assert result.exit_code == 0, result.stderr
    first, second = [json.loads(line) for line in result.stdout.splitlines()]
    assert (first["run"], first["id"], first["state"], first["carry"]) == (1, "monday", "complete", None)
    assert (second["run"], second["id"], second["state"], second["carry"]) == (2, "tuesday", "not complete", "position")
    assert (first["params"], second["params"], second["epochs"]) == ({"day": "2024-01-01"}, {"day": "2024-01-02"}, 1)
    table = command("runs", checkpoint).stdout.splitlines()
    assert table[0].split() == ["run", "id", "state", "carry", "params", "lineage", "epochs", "at"]
    assert "run 2, begun with position of the run before" in command("doctor", checkpoint).stdout
    (checkpoint / "millstream/head.json").unlink()
    assert command("runs", checkpoint).exit_code == 5
    assert "rebuilt from manifest 0" in command("doctor", checkpoint, "--repair").stdout
    assert job.run(local=True, checkpoint=checkpoint, params={"day": "2024-01-02"}).run == 2
    assert written(tmp_path) == Counter(list(data.rows))


def test_runs_of_something_that_is_no_checkpoint(tmp_path):
    result = command("runs", tmp_path)
    assert (result.exit_code, "CKPT-016" in result.stderr) == (5, True)


def test_a_run_that_has_begun_and_published_nothing_is_seen(data, tmp_path, failpoints):
    failpoints("begun:1:raise")
    with pytest.raises(ms.MillstreamError):
        job_of(data, tmp_path).run(local=True, checkpoint=tmp_path / "c", run_id="monday")
    failpoints("")
    (facts,) = [json.loads(line) for line in command("runs", tmp_path / "c", "--json").stdout.splitlines()]
    assert (facts["run"], facts["id"], facts["state"], facts["epochs"], facts["at"]) == (
        1,
        "monday",
        "not complete",
        0,
        None,
    )


SCRIPT = """
import sys
from pathlib import Path
from tests.unit.runs import stand_ins
from tests.unit.runs.inputs import INPUTS, SCHEMA
import millstream as ms

stand_ins.register()
mode, root, place, carry = sys.argv[1:5]
data = INPUTS[mode].__new__(INPUTS[mode])
data.root = Path(root)
job = ms.Job("killed", rows_per_epoch=2, mode=mode, carry=carry)
rows = job.source("rows", data.connector(), schema=SCHEMA)
rows.sink("all", ms.files(Path(place) / "out", format="json"))
rows.key_by("k").aggregate(total=ms.sum("n"), emit="end", id="totals").sink("totals", ms.files(Path(place) / "totals"))
job.run(local=True, checkpoint=Path(place) / "checkpoint")
"""


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH_ROLLER", "SQL_TASK"])
def test_three_runs_of_each_mode_and_one_killed(mode, tmp_path):
    from tests.unit.runs.inputs import INPUTS

    data = INPUTS[mode](tmp_path / "input")

    def run(failpoints=""):
        words = [sys.executable, "-c", SCRIPT, mode, str(data.root), str(tmp_path), "state"]
        environment = {**os.environ, "MILLSTREAM_FAILPOINTS": failpoints, "PYTHONPATH": str(ROOT)}
        return subprocess.run(words, env=environment, cwd=ROOT, timeout=120, check=False).returncode

    assert run() == 0
    data.add(5)
    data.change(2)
    assert run("durable:2:kill") == -signal.SIGKILL
    assert run("sink_published:2:kill") == -signal.SIGKILL
    assert run() == 0
    data.add(4)
    assert run() == 0
    rows = ms.read_files(tmp_path / "out").to_pylist()
    assert Counter(row["id"] for row in rows) == Counter(list(data.rows))
    newest = {row["k"]: row["total"] for row in ms.read_files(tmp_path / "totals").to_pylist()}
    assert newest == totals(rows)
