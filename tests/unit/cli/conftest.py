"""A command line in this process: it leaves `sys.path` and `sys.modules` as they were."""

import sys

import pytest
from typer.testing import CliRunner

from millstream.cli.main import app

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
