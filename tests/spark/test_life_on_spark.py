"""Functions with a life on Spark: once per worker process, across epochs, closed with the run; and crashed workers."""

import os
import threading
from collections import Counter
from pathlib import Path

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import StepFailed
from millstream.spark.query import closing

pytestmark = pytest.mark.spark
ROWS = [{"k": str(n % 5), "n": n} for n in range(40)]


class Noted:
    """Writes down what happens to it, one file per process."""

    def __init__(self, folder):
        self.folder = str(folder)

    def open(self, ctx):
        self.rows, self.ctx = ctx.counter("rows"), ctx
        self.note(f"open {ctx.job} {ctx.step} {ctx.parallelism}")

    def close(self):
        self.note(f"close {self.ctx.step}")

    def note(self, text):
        with (Path(self.folder) / str(os.getpid())).open("a") as file:
            file.write(f"{text}\n")


class Doubled(Noted):
    def __call__(self, row):
        self.rows.add()
        self.note("row map")
        return {"k": row["k"], "n": row["n"] * 2}


class Numbered(Noted, ms.ProcessFunction):
    seen = ms.ValueState(int)

    def process(self, row, ctx):
        self.rows.add()
        self.note("row process")
        self.seen.update((self.seen.value() or 0) + 1)
        yield {"k": row["k"], "n": self.seen.value()}


def job_of(name, build):
    clear(name)
    job = ms.Job(name, rows_per_epoch=15)
    build(job.source("in", ms.memory(ROWS), schema="k string, n long")).sink("out", ms.collect(name))
    return job


def test_each_worker_opens_a_step_once_for_all_epochs_and_closes_it_with_the_run(spark, tmp_path):
    job = job_of(
        "living",
        lambda rows: (
            rows.map(Doubled(tmp_path), schema="k string, n long", id="m")
            .key_by("k")
            .process(Numbered(tmp_path), schema="k string, n long", id="p")
        ),
    )
    for _ in range(2):
        result = job.run(master="local[2]")
        assert result.epochs > 2
        assert result.metrics["m"].counters == result.metrics["p"].counters == {"rows": 40}
        notes = [file.read_text().splitlines() for file in tmp_path.iterdir()]
        for file in tmp_path.iterdir():
            file.unlink()
        assert sum(note.count("row map") for note in notes) == 40
        for note in notes:
            for step, kind in (("m", "map"), ("p", "process")):
                mine = [
                    line for line in note if line.split()[:2] in (["close", step], ["row", kind]) or f" {step} " in line
                ]
                assert mine.count(f"open living {step} 2") == mine.count(f"close {step}") <= 1
                if mine:
                    assert (mine[0], mine[-1]) == (f"open living {step} 2", f"close {step}")
    assert Counter(row["k"] for row in collected("living")) == dict.fromkeys("01234", 16)


class Broken(Noted):
    def open(self, ctx):
        self.note("tried")
        raise ConnectionError("no route to the model")

    def __call__(self, row):
        return row


def test_an_error_in_open_names_the_step(spark, tmp_path):
    job = job_of("broken", lambda rows: rows.map(Broken(tmp_path), schema="k string, n long", id="m"))
    with pytest.raises(StepFailed, match=r"STEP-261.*no route to the model") as failed:
        job.run(master="local[2]")
    assert failed.value.step == "m"
    assert [file.read_text() for file in tmp_path.iterdir()] == ["tried\n"]


class Failing(Doubled):
    def __call__(self, row):
        self.note(f"row {row['n']}")
        if row["n"] == 7:
            raise ValueError("seven")
        return row


@pytest.mark.parametrize("level", ["source", "keyed"])
def test_a_function_that_fails_is_not_called_again(spark, tmp_path, level):
    """Spark tries the task again; the error is the user's, and the same the next time."""
    name = f"failing-{level}"
    rows = [{"k": "a", "n": n} for n in range(10)]
    job = ms.Job(name)
    source = job.source("in", ms.memory(rows), schema="k string, n long")
    if level == "keyed":
        source = source.key_by("k").aggregate(n=ms.max("n"), emit="row", id="newest")
    source.map(Failing(tmp_path), schema="k string, n long", id="m").sink("out", ms.collect(name))
    with pytest.raises(StepFailed, match="ValueError: seven"):
        job.run(master="local[2]")
    notes = [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert notes.count("row 7") == 1


class Dying(Doubled):
    """Ends its process in the middle of an epoch, once."""

    def __call__(self, row):
        marker = Path(self.folder) / "died"
        if row["n"] == 25 and not marker.exists():
            marker.write_text("")
            os._exit(9)
        self.rows.add()
        return {"k": row["k"], "n": row["n"] * 10 + self.ctx.attempt}


@pytest.mark.parametrize("level", ["source", "keyed"])
def test_a_worker_that_dies_does_not_end_the_run(spark, tmp_path, level):
    """What the first attempt had staged is not shown, what it had counted is not counted."""
    (tmp_path / "notes").mkdir()
    name = f"dying-{level}"
    job = ms.Job(name, rows_per_epoch=15)
    rows = job.source("in", ms.memory(ROWS), schema="k string, n long")
    if level == "keyed":
        rows = rows.key_by("k").aggregate(n=ms.max("n"), emit="row", id="newest")
    made = rows.map(Dying(tmp_path / "notes"), schema="k string, n long", id="m")
    made.sink("out", ms.files(str(tmp_path / "out"), format="json"))
    result = job.run(master="local[2]", checkpoint=tmp_path / "checkpoint")
    assert (tmp_path / "notes" / "died").exists()
    assert (result.failures, result.metrics["m"].counters) == (0, {"rows": 40})
    shown = ms.read_files(tmp_path / "out").to_pylist()
    assert Counter((row["k"], row["n"] // 10) for row in shown) == Counter((row["k"], row["n"]) for row in ROWS)
    assert {row["n"] % 10 for row in shown} == {0, 1}


class Endless(Doubled):
    def close(self):
        self.note("close")
        threading.Event().wait(120)


def test_a_close_that_does_not_end_does_not_keep_the_run(spark, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(closing, "_LONGEST_SECONDS", 1.0)
    job = job_of("endless", lambda rows: rows.map(Endless(tmp_path), schema="k string, n long", id="m"))
    assert job.run(master="local[2]").rows_out == 40
    assert "close" in [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert "the functions of the job were not closed" in caplog.text
