"""`millstream run` on Spark: a job file by path, whose functions the workers cannot import."""

import json

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.cli.main import app

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
