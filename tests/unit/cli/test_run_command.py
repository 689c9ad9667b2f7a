"""`run --local`: progress, summary, JSON lines, metrics, resuming, and signals."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from millstream.api.running.result import EpochSummary, PartitionWatermark
from millstream.cli.jobs.progress import epoch_line
from millstream.connectors.collect.sink import collected
from millstream.model.counts import StepCounts
from millstream.model.time import MIN_TIME

MAIN = [sys.executable, "-m", "millstream.cli.main"]
ENDLESS = """
import millstream as ms

job = ms.Job("endless", epoch_interval="50ms")
job.source("ticks", ms.rate(1000)).key_by("value").aggregate(n=ms.count(), id="n").sink("out", ms.collect("x"))
"""


def test_the_summary_counts_the_rows_of_every_step(cli, job_file):
    result = cli("run", job_file, "--local")
    assert result.exit_code == 0, result.stderr
    first, header, *lines = result.stdout.splitlines()
    assert first.startswith("orders (exactly_once): 2 epochs, 3 rows in, 2 rows out, ")
    assert first.endswith("; finished")
    assert header.split() == ["step", *StepCounts.__struct_fields__]
    shown = {line.split()[0]: dict(zip(header.split()[1:], map(int, line.split()[1:]), strict=True)) for line in lines}
    paid, out = shown["paid"], shown["out"]
    assert (paid["rows_in"], paid["passed"], paid["filtered"], paid["rows_out"]) == (3, 2, 1, 2)
    assert (out["rows_in"], out["passed"], out["filtered"], out["rows_out"]) == (2, 2, 0, 2)
    assert {(row["user"], row["total"]) for row in collected("cli-orders")} == {("a", 1.0), ("b", 2.0)}


def test_json_lines(cli, job_file):
    lines = [json.loads(line) for line in cli("run", job_file, "--local", "-o", "json").stdout.splitlines()]
    assert [line["type"] for line in lines] == ["epoch", "epoch", "result"]
    assert lines[0]["rows_in"] == 3
    assert [line["terminal"] for line in lines[:2]] == [False, True]
    assert lines[0]["watermark"] == "-"
    assert lines[2]["counts"]["paid"]["filtered"] == 1
    assert lines[2]["resumed_from"] is None


HELD = """
import millstream as ms

ROWS = [{"shard": "n", "at": 1000}, {"shard": "s", "at": 9000}, {"__ms_mark": "clock", "advance": 60000}]
job = ms.Job("held")
rows = job.source("in", ms.memory(ROWS, partition_by="shard"), schema="shard string, at long")
rows.event_time("at", id="time").key_by("shard").aggregate(n=ms.count(), id="n").sink("out", ms.collect("held"))
"""


def test_watermarks_in_json_lines_and_metrics(cli, tmp_path):
    (tmp_path / "held.py").write_text(HELD)
    result = cli("run", tmp_path / "held.py", "--local", "-o", "json", "--metrics", tmp_path / "m.prom")
    epochs = [line for line in map(json.loads, result.stdout.splitlines()) if line["type"] == "epoch"]
    assert epochs[0]["watermarks"] == [
        {"step": "time", "partition": "in", "watermark": "-", "is_idle": False, "is_holding": True, "is_paused": False}
    ]
    assert epochs[1]["steps"] == {"time": "1970-01-01T00:00:00.999Z"}
    assert epochs[1]["now"] == "1970-01-01T00:01:00.000Z"
    found = [(each["partition"], each["watermark"], each["is_holding"]) for each in epochs[1]["watermarks"]]
    assert found == [("in/n", "1970-01-01T00:00:00.999Z", True), ("in/s", "1970-01-01T00:00:08.999Z", False)]
    assert "millstream_watermark" not in (tmp_path / "m.prom").read_text(), "the last epoch is at the end of time"


def test_quiet(cli, job_file):
    result = cli("run", job_file, "--local", "-o", "quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_checkpoint_is_resumed_by_the_same_command(cli, job_file, tmp_path):
    command = ["run", job_file, "--local", "--checkpoint", tmp_path / "checkpoint", "-o", "json"]
    assert cli(*command).exit_code == 0
    again = json.loads(cli(*command).stdout)
    assert (again["epochs"], again["resumed_from"]) == (0, 1)


def test_a_checkpoint_of_another_job_is_a_conflict(cli, job_file, tmp_path):
    assert cli("run", job_file, "--local", "--checkpoint", tmp_path / "checkpoint").exit_code == 0
    job_file.write_text(job_file.read_text().replace('"orders"', '"refunds"'))
    result = cli("run", job_file, "--local", "--checkpoint", tmp_path / "checkpoint")
    assert (result.exit_code, "CKPT-005" in result.stderr) == (5, True)


def test_a_failing_function_fails_the_job(cli, job_file):
    job_file.write_text(job_file.read_text().replace('"amount > 0"', 'lambda row: row["amout"] > 0'))
    result = cli("run", job_file, "--local")
    assert result.exit_code == 1
    assert result.stderr.startswith("error [RUN-001] step 'paid'")


@contextlib.contextmanager
def endless(tmp_path, *options, job=ENDLESS):
    """An endless job in a process of its own that has published an epoch."""
    path = tmp_path / "endless.py"
    path.write_text(job)
    command = [*MAIN, "run", str(path), "--local", "-o", "json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["type"] == "epoch"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_drains(tmp_path, number):
    with endless(tmp_path, "--on-stop", "drain", "--checkpoint", str(tmp_path / "checkpoint")) as process:
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    first, last = errors.splitlines()
    assert first.startswith("draining: reading no more")
    assert last.startswith("drained: everything that was read is published, the job is complete")
    lines = [json.loads(line) for line in output.splitlines()]
    assert lines[-2]["terminal"]
    assert lines[-1]["ended"] == "drained"


GATED = """
import pathlib
import time
import millstream as ms

HERE = pathlib.Path({folder!r})


def gated(row):
    # The first epoch holds values below 100 only; a later one stops here until it is let through.
    if row["value"] >= 100:
        (HERE / "in-flight").touch()
        while not (HERE / "gate").exists():
            time.sleep(0.01)
    return row


job = ms.Job("gated", rows_per_epoch=100)
job.source("ticks", ms.rate(1000)).map(gated, schema="timestamp timestamp, value long", id="gated").sink("out", ms.collect("x"))
"""


@contextlib.contextmanager
def held_in_an_epoch(tmp_path, *options):
    """A process whose second epoch or a later one is in flight, and stays so until `gate` is there."""
    with endless(tmp_path, *options, job=GATED.format(folder=str(tmp_path))) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "in-flight").exists():
            assert time.monotonic() < deadline, "no epoch reached the gate"
            time.sleep(0.01)
        yield process


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_the_second_signal_cancels_and_says_how_to_resume(tmp_path, with_checkpoint):
    options = ["--checkpoint", str(tmp_path / "checkpoint")] if with_checkpoint else []
    options += ["--on-stop", "drain"]
    with held_in_an_epoch(tmp_path, *options) as process:
        for line in ("draining", "stopping at once"):
            process.send_signal(signal.SIGINT)
            assert process.stderr.readline().startswith(line)
        (tmp_path / "gate").touch()
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert json.loads(output.splitlines()[-1])["ended"] == "cancelled"
    if with_checkpoint:
        assert "cancelled; resume with the same command: millstream run" in errors
    else:
        assert "the next run starts afresh" in errors


def test_the_third_signal_does_not_wait(tmp_path):
    with held_in_an_epoch(tmp_path, "--on-stop", "drain") as process:
        for line in ("draining", "stopping at once", "cancelled"):
            process.send_signal(signal.SIGINT)
            assert process.stderr.readline().startswith(line)
        assert process.wait(timeout=30) == 130


def test_metrics_are_kept_in_a_file(cli, job_file, tmp_path):
    path = tmp_path / "orders.prom"
    assert cli("run", job_file, "--local", "--metrics", path).exit_code == 0
    lines = path.read_text().splitlines()
    assert 'millstream_guarantee{job_name="orders",guarantee="exactly_once"} 1' in lines
    assert 'millstream_rows_in_total{job_name="orders"} 3' in lines
    assert 'millstream_epochs_total{job_name="orders"} 2' in lines
    assert 'millstream_fencing_token{job_name="orders"} 1' in lines
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_epoch_options_reach_the_run(cli, job_file, tmp_path):
    job_file.write_text(
        job_file.read_text().replace('"orders", parallelism', '"orders", rows_per_epoch=1, parallelism')
    )
    options = ["--retain", "2", "--min-pause", "1ms", "--epoch-timeout", "1m", "--lease-term", "5s"]
    assert cli("run", job_file, "--local", "--checkpoint", tmp_path / "c", *options).exit_code == 0
    assert len(list((tmp_path / "c" / "millstream" / "manifests").rglob("*.json"))) == 2


@pytest.mark.parametrize(("option", "code"), [("--min-pause", "STEP-004"), ("--lease-term", "STEP-004")])
def test_a_wrong_duration_is_refused(cli, job_file, option, code):
    result = cli("run", job_file, "--local", option, "soon")
    assert (result.exit_code, code in result.stderr) == (3, True)


def test_manifests_may_lie_in_a_database(cli, job_file, tmp_path):
    store = f"sqlite:////{tmp_path}/manifests.db"
    command = ["run", job_file, "--local", "--checkpoint", tmp_path / "c", "--manifests", store, "-o", "json"]
    assert cli(*command).exit_code == 0
    assert json.loads(cli(*command).stdout)["resumed_from"] == 1
    assert not (tmp_path / "c" / "millstream").exists()
    result = cli("doctor", tmp_path / "c", "--manifests", store)
    assert (result.exit_code, "verdict: complete" in result.stdout) == (0, True)


def test_state_is_given_up_once(cli, job_file, tmp_path):
    command = ["run", job_file, "--local", "--checkpoint", tmp_path / "checkpoint", "-o", "json"]
    assert cli(*command).exit_code == 0
    refused = cli(*command, "--ignore-state-once")
    assert (refused.exit_code, "SINK-003" in refused.stderr) == (5, True)
    again = [*command, "--ignore-state-once", "--on-newer-output", "truncate"]
    over = [json.loads(cli(*again).stdout.splitlines()[-1]) for _ in range(2)]
    assert [(result["epochs"], result["resumed_from"]) for result in over] == [(2, None), (0, 1)]
    assert len(collected("cli-orders")) == 2


def test_a_terminal_shows_a_progress_line(job_file):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140"}
    with subprocess.Popen(
        [*MAIN, "run", str(job_file), "--local"], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    assert b"orders (exactly_once): starting" in shown
    assert b"orders (exactly_once): 2 epochs, 3 rows in, 2 rows out" in shown


def test_the_progress_line():
    summary = EpochSummary(
        epoch=7, rows_in=5000, rows_out=10, lag=1234, watermark=MIN_TIME, seconds=0.5, terminal=False
    )
    assert epoch_line(summary) == "epoch 7  in 10,000 rows/s  out 20 rows/s  lag 1,234  watermark -"


def test_the_progress_line_names_who_holds_the_watermark_back():
    def partition(name, mark, **flags):
        known = {"is_idle": False, "is_holding": False, "is_paused": False, **flags}
        return PartitionWatermark(step="t", partition=name, watermark=mark, **known)

    def line(*partitions):
        summary = EpochSummary(
            epoch=7, rows_in=0, rows_out=0, lag=None, watermark=5, seconds=0.5, terminal=False,
            steps={"t": 5, "u": 9}, watermarks=partitions,
        )  # fmt: skip
        return epoch_line(summary).partition("watermark ")[2]

    slow, fast = partition("a/0", 5, is_holding=True), partition("b/0", 90, is_paused=True)
    assert line(slow) == "1970-01-01T00:00:00.005Z"
    assert line(slow, fast) == "1970-01-01T00:00:00.005Z held by a/0, 1 paused"
    assert line(slow, partition("c/1", 5, is_holding=True)) == "1970-01-01T00:00:00.005Z held by a/0 and 1 more"
    assert line(partition("a/0", 5, is_idle=True), fast) == "1970-01-01T00:00:00.005Z, 1 paused"


PARAMS = """
import millstream as ms

job = ms.Job("parameters", params={"least": "int", "tag": {"type": "string", "default": "none"}})
rows = job.source("in", ms.memory([{"n": n} for n in range(5)]), schema="n long").filter("n >= :least")
rows.with_columns(tag=":tag").sink("out", ms.collect("cli-params"))
"""


def test_parameters_are_given_by_name(cli, tmp_path):
    file = tmp_path / "parameters.py"
    file.write_text(PARAMS)
    assert cli("run", file, "--local", "-P", "least=3", "-P", "tag=a=b").exit_code == 0
    assert collected("cli-params") == [{"n": 3, "tag": "a=b"}, {"n": 4, "tag": "a=b"}]
    for given, problem in (
        ([], "the job needs parameter 'least'"),
        (["-P", "least=x"], "parameter 'least' has a wrong value"),
        (["-P", "least=1", "-P", "last=1"], "the job has no parameter 'last'"),
    ):
        result = cli("run", file, "--local", *given)
        assert (result.exit_code, problem in result.stderr) == (3, True), result.stderr
    for given in (["-P", "least"], ["-P", "least=1", "-P", "least=2"]):
        assert cli("run", file, "--local", *given).exit_code == 2


def test_a_plan_is_shown_with_parameters_and_without(cli, tmp_path):
    file = tmp_path / "parameters.py"
    file.write_text(PARAMS)
    assert "n >= CAST(:least AS int)" in cli("plan", file, "--layer", "stream").stdout
    shown = cli("plan", file, "--layer", "stream", "-P", "least=3").stdout
    assert "n >= CAST('3' AS int)" in shown
    assert "  params       least=3, tag=none\n" in cli("plan", file, "--layer", "deployment", "-P", "least=3").stdout
