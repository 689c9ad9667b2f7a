"""The commands on Spark: a job file by path, ending and restoring at another parallelism, reading state, signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.api.running import RunningJob, engine_for
from millstream.checkpoint.savepoint import read_savepoint
from millstream.cli.main import app
from millstream.plan.deployment import Deployment

pytestmark = pytest.mark.spark

JOB = """
import millstream as ms

FACTOR = 10


def scaled(row):
    return {"user": row["user"], "amount": row["amount"] * FACTOR}


job = ms.Job("scaled")
rows = job.source("rows", ms.files("in", format="json"), schema="user string, amount long")
rows = rows.map(scaled, schema="user string, amount long", id="scale")
rows.key_by("user").reduce(lambda a, b: {**b, "amount": a["amount"] + b["amount"]}, id="sums").sink("out", ms.files("out"))
"""


def test_a_job_file_runs_and_is_complete_the_second_time(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"user": "a", "amount": 1}\n{"user": "a", "amount": 2}\n')
    (tmp_path / "scaled_job.py").write_text(JOB)
    command = ["run", "scaled_job.py", "--checkpoint", "checkpoint", "--master", "local[2]", "-o", "json"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert sorted(row["amount"] for row in ms.read_files("out").to_pylist()) == [10, 30]
    last = json.loads(first.stdout.strip().splitlines()[-1])
    assert last["rows_in"] == 2
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout.strip().splitlines()[-1])["epochs"] == 0


def ticks(out, parallelism):
    job = ms.Job("ticks", epoch_interval="100ms", parallelism=parallelism)
    rows = job.source("ticks", ms.rate(2000)).with_columns(k="value % 11")
    rows.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.files(out))
    return job


def started(job, checkpoint, **options):
    """The job in a thread on Spark; two epochs are published."""
    deployment = job.compile(Deployment(master="local[2]", checkpoint=str(checkpoint))).deployment
    published = threading.Semaphore(0)
    running = RunningJob("ticks", engine_for(deployment, **options), listener=lambda _: published.release())
    deadline = time.monotonic() + 200
    for _ in range(2):
        while not published.acquire(timeout=0.5):
            if not running.is_running:
                running.wait()  # raises why
            assert time.monotonic() < deadline, "no two epochs in 200 s"
    return running


def cli(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def newest(out):
    return {row["k"]: row["n"] for row in ms.read_files(out).to_pylist()}


def test_a_suspended_job_is_restored_at_another_parallelism(spark, tmp_path):
    first = started(ticks(tmp_path / "out", 2), tmp_path / "a")
    suspended = json.loads(cli("suspend", tmp_path / "a", "--to", tmp_path / "sp", "--id", "end", "--json"))
    assert first.wait(60).ended == "suspended"
    before = newest(tmp_path / "out")
    assert sum(before.values()) == first.wait().rows_in

    # Offline: the state that Spark keeps is the state of the savepoint, and the doctor agrees.
    assert "Spark's logs and state agree" in cli("doctor", tmp_path / "a")
    table = ms.read_state(tmp_path / "a", "n")
    assert {row["k"]: row["n"] for row in table.to_pylist()} == before
    cli("state", "diff", tmp_path / "a", suspended["savepoint"])
    cli("savepoint", "create", tmp_path / "a", "--to", tmp_path / "sp", "--id", "off")
    cli("state", "diff", tmp_path / "sp/savepoint-off", suspended["savepoint"])
    cli("savepoint", "create", tmp_path / "a", "--to", tmp_path / "sp", "--id", "copy", "--native")
    assert read_savepoint(tmp_path / "sp/savepoint-copy").native

    second = started(ticks(tmp_path / "out", 3), tmp_path / "b", from_savepoint=suspended["savepoint"])
    assert "drained" in cli("drain", tmp_path / "b")
    result = second.wait(60)
    after = newest(tmp_path / "out")
    assert sum(after.values()) == sum(before.values()) + result.rows_in
    assert all(after[key] > count for key, count in before.items())


def test_the_first_ctrl_c_reaches_the_whole_group_and_drains(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import millstream as ms\n"
        "job = ms.Job('endless', epoch_interval='50ms')\n"
        "rows = job.source('ticks', ms.rate(1000)).with_columns(k='value % 11')\n"
        "rows.key_by('k').aggregate(n=ms.count(), id='n').sink('out', ms.files('out'))\n"
    )
    command = [sys.executable, "-m", "millstream.cli.main", "run", "endless.py", "--checkpoint", "c", "-o", "json"]
    command += ["--master", "local[2]"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert json.loads(process.stdout.readline())["type"] == "epoch"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the JVM gets it too
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors.splitlines()[-1].startswith("drained: everything that was read is published")
    result = json.loads(output.splitlines()[-1])
    assert result["ended"] == "drained"
    assert sum(newest(tmp_path / "out").values()) == result["rows_in"]
