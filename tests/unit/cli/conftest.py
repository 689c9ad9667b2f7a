"""A command line in this process: it leaves `sys.path` and `sys.modules` as they were."""

import sys
import threading

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.api.running.job import RunningJob, engine_for
from millstream.cli.main import app
from millstream.plan.deployment import Deployment

JOB = """
import millstream as ms

rows = [{"user": u, "amount": a, "at": t} for u, a, t in [("a", 1.0, 1000), ("b", 2.0, 2000), ("a", -1.0, 61000)]]
job = ms.Job("orders", parallelism=2)
stream = job.source("in", ms.memory(rows), schema="user string, amount double, at long").filter("amount > 0", id="paid")
stream.key_by("user").aggregate(total=ms.sum("amount")).sink("out", ms.collect("cli-orders"))

if __name__ == "__main__":
    job.run()
"""


@pytest.fixture
def cli(monkeypatch):
    """Run a command; gives its result with `exit_code`, `stdout` and `stderr`."""
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
    for name in set(sys.modules) - modules:
        if not name.startswith(("millstream", "rich", "typer", "yaml", "duckdb", "sqlglot", "pyarrow", "numpy")):
            sys.modules.pop(name)


@pytest.fixture
def job_file(tmp_path):
    """A job as a Python file."""
    path = tmp_path / "orders_job.py"
    path.write_text(JOB)
    return path


TICKS = """
import millstream as ms

job = ms.Job("ticks", epoch_interval="20ms", parallelism=PARALLELISM)
ticks = job.source("ticks", ms.rate(500)).with_columns(k="value % 7")
ticks.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.files("OUT"))
"""


@pytest.fixture
def ticks_file(tmp_path):
    """An endless job as a Python file: `ticks_file(parallelism=3)`."""

    def write(parallelism=2):
        path = tmp_path / f"ticks_{parallelism}.py"
        text = TICKS.replace("PARALLELISM", str(parallelism)).replace("OUT", str(tmp_path / "out"))
        path.write_text(text)
        return path

    return write


@pytest.fixture
def ticks(tmp_path):
    """The endless job, running in this process over `tmp_path / "checkpoint"`; it has published every one of its 7 keys."""
    started = []

    def start(parallelism=2, **options):
        job = ms.Job("ticks", parallelism=parallelism)
        ticks = job.source("ticks", ms.rate(500)).with_columns(k="value % 7")
        ticks.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.files(tmp_path / "out"))
        deployment = job.compile(Deployment(checkpoint=str(tmp_path / "checkpoint"))).deployment
        published = threading.Event()
        engine = engine_for(deployment, local=True, **options)
        rows = [0]

        def count(epoch):
            rows[0] += epoch.rows_in
            if rows[0] >= 7:
                published.set()

        running = RunningJob("ticks", engine, listener=count)
        started.append(running)
        assert published.wait(30)
        return running

    yield start
    for running in started:
        if running.is_running:
            running.cancel()
