"""`run --local`: progress, summary, JSON lines, resuming, and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from millstream.cli.progress import epoch_line
from millstream.connectors.collect.sink import collected
from millstream.model.time import MIN_TIME
from millstream.runtime.counts import StepCounts
from millstream.runtime.run import EpochSummary

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
    assert first.startswith("orders: 2 epochs, 3 rows in, 2 rows out, ")
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


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_ctrl_c_stops_and_says_how_to_resume(tmp_path, with_checkpoint):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    options = ["--checkpoint", str(tmp_path / "checkpoint")] if with_checkpoint else []
    command = [*MAIN, "run", str(path), "--local", "-o", "json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["type"] == "epoch"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    if with_checkpoint:
        assert f"resume with the same command: millstream run {path} --local -o json --checkpoint" in errors
    else:
        assert "the next run starts afresh" in errors


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
    assert b"orders: starting" in shown
    assert b"orders: 2 epochs, 3 rows in, 2 rows out" in shown


def test_the_progress_line():
    summary = EpochSummary(
        epoch=7, rows_in=5000, rows_out=10, lag=1234, watermark=MIN_TIME, seconds=0.5, terminal=False
    )
    assert epoch_line(summary) == "epoch 7  in 10,000 rows/s  out 20 rows/s  lag 1,234  watermark -"
