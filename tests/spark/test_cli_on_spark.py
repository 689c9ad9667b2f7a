"""The commands on Spark: a job file by path, ending and restoring at another parallelism, reading state, signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.api.running.job import RunningJob, engine_for
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


ENDLESS = """
import millstream as ms

job = ms.Job("endless", epoch_interval="50ms")
rows = job.source("ticks", ms.rate(1000)).with_columns(k="value % 11")
rows.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.files("out"))
"""
HALVES = """
import pathlib
import time
import millstream as ms

HERE = pathlib.Path(__file__).parent


def gated(row):
    if row["n"] >= 200:
        (HERE / "half").touch()
        while not (HERE / "gate").exists():
            time.sleep(0.01)
    return row


job = ms.Job("halves", rows_per_epoch=40, epoch_interval=0)
rows = job.source("rows", ms.datagen(rows=400, fields={"n": {"kind": "sequence"}}))
rows = rows.map(gated, schema="n long", id="gated").with_columns(at="n * 100", k="n % 3")
windows = rows.event_time("at", id="time").key_by("k").window(ms.tumbling("7s"))
windows.aggregate(total=ms.sum("n"), id="sums").sink("out", ms.files(HERE / "out"))

if __name__ == "__main__":
    job.run(checkpoint=HERE / "c", master="local[2]", on_stop="suspend")
"""


def process_of(folder, *words):
    """A command in a process group of its own, as a terminal or a service manager starts it."""
    command = [sys.executable, *map(str, words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Whoever runs the tests in the background may have switched Ctrl-C off, for every child too.
    listening = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **listening, **streams)


RUN = ("-m", "millstream.cli.main", "run", "job.py", "--checkpoint", "c", "--master", "local[2]", "-o", "json")


def test_ctrl_c_reaches_the_whole_group_and_a_job_may_drain_on_it(tmp_path):
    (tmp_path / "job.py").write_text(ENDLESS)
    with process_of(tmp_path, *RUN, "--on-stop", "drain") as process:
        assert json.loads(process.stdout.readline())["type"] == "epoch"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the JVM gets it too
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors.splitlines()[-1].startswith("drained: everything that was read is published, the job is complete")
    result = json.loads(output.splitlines()[-1])
    assert result["ended"] == "drained"
    assert sum(newest(tmp_path / "out").values()) == result["rows_in"]


def half_way(folder, process):
    deadline = time.monotonic() + 120
    while not (folder / "half").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the job did not come half way"
        time.sleep(0.01)


def rows_of(folder):
    return Counter(tuple(sorted(row.items())) for row in ms.read_files(folder / "out").to_pylist())


def undisturbed(folder):
    """What the job publishes when it is left alone; both engines publish the same."""
    folder.mkdir()
    (folder / "job.py").write_text(HALVES)
    (folder / "gate").touch()
    done = subprocess.run([sys.executable, *RUN, "--local"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return rows_of(folder)


def resume_here(folder, monkeypatch):
    """The same command again, in the Spark of the tests."""
    monkeypatch.chdir(folder)
    sys.modules.pop("job", None)
    resumed = CliRunner().invoke(app, list(RUN[2:]))
    sys.modules.pop("job", None)
    assert resumed.exit_code == 0, resumed.output


def test_a_stopped_service_goes_on_where_it_was(spark, tmp_path, monkeypatch):
    expected = undisturbed(tmp_path / "undisturbed")
    (tmp_path / "job.py").write_text(HALVES)
    with process_of(tmp_path, *RUN) as process:
        half_way(tmp_path, process)
        os.killpg(process.pid, signal.SIGTERM)  # as a service manager does by default: Spark goes down too
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "cancelled; resume with the same command: millstream run job.py" in errors
    assert json.loads(output.splitlines()[-1])["type"] in {"epoch", "result"}
    assert sum(rows_of(tmp_path).values()) < sum(expected.values())
    (tmp_path / "gate").touch()
    resume_here(tmp_path, monkeypatch)
    assert rows_of(tmp_path) == expected


def test_a_program_on_spark_is_suspended_by_ctrl_c(spark, tmp_path, monkeypatch):
    expected = undisturbed(tmp_path / "undisturbed")
    (tmp_path / "job.py").write_text(HALVES)
    with process_of(tmp_path, "job.py") as process:
        half_way(tmp_path, process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.readline().startswith("suspending: taking a savepoint")
        (tmp_path / "gate").touch()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert list((tmp_path / "c" / "savepoints").iterdir())
    assert sum(rows_of(tmp_path).values()) < sum(expected.values())
    resume_here(tmp_path, monkeypatch)
    assert rows_of(tmp_path) == expected
