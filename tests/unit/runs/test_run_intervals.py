"""The interval of a run: in options, queries, expressions and functions, in the history, outside the fingerprint."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.cli.main import app
from millstream.plan.deployment import Deployment

JOB = """
import sys
import millstream as ms

class Within:
    def open(self, ctx):
        self.start, self.end = ctx.params["interval_start"], ctx.params["interval_end"]

    def __call__(self, row):
        return {{**row, "day": (self.end - self.start).days}}

job = ms.Job("interval", carry="nothing")
query = "SELECT id, at FROM visits WHERE at >= ${{param:interval_start}}"
rows = job.source("visits", ms.jdbc_query("sqlite:///{place}/in.db", query, key="id"), schema="id long, at string")
kept = rows.filter("CAST(at AS timestamp) < :interval_end").map(Within(), schema="id long, at string, day int")
kept.sink("out", ms.files("{place}/out-${{param:interval_start}}", format="json", write="replace"))
"""


@pytest.fixture
def place(tmp_path):
    with sqlite3.connect(tmp_path / "in.db") as database:
        database.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, at TEXT)")
        rows = [(n, f"2024-01-0{n}T12:00:00Z") for n in range(1, 8)]
        database.executemany("INSERT INTO visits VALUES (?, ?)", rows)
    (tmp_path / "job.py").write_text(JOB.format(place=tmp_path))
    return tmp_path


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_it_is_given_on_the_command_line_and_reaches_everything(place):
    for start, end, ids in (("2024-01-02", "2024-01-04", [2, 3]), ("2024-01-04", "2024-01-08", [4, 5, 6, 7])):
        given = ("-P", f"interval_start={start}", "-P", f"interval_end={end}")
        done = command("run", place / "job.py", "--local", "--checkpoint", place / "c", *given)
        assert done.exit_code == 0, done.stderr
        (folder,) = place.glob(f"out-{start}*")
        rows = ms.read_files(folder).to_pylist()
        assert [row["id"] for row in rows] == ids
        assert {row["day"] for row in rows} == {len(ids)}
    first, second = [json.loads(line) for line in command("runs", place / "c", "--json").stdout.splitlines()]
    assert first["params"]["interval_start"].startswith("2024-01-02")
    assert second["params"]["interval_end"].startswith("2024-01-08")
    refused = command(
        "run", place / "job.py", "--local", "--checkpoint", place / "c", "-P", "interval_start=2024-01-04"
    )
    assert "PARAM-002" in refused.stderr


def test_it_is_no_part_of_the_fingerprint():
    job = ms.Job("interval")
    rows = job.source("in", ms.memory([]), schema="at timestamp")
    rows.filter("at >= :interval_start").sink("out", ms.files("out-${param:interval_start}"))
    prints = {
        job.compile(Deployment(params={"interval_start": day})).partitioned.fingerprint.whole
        for day in ("2024-01-01", "2024-01-02")
    }
    assert len(prints) == 1
