"""The files of a new project: a job, its test, sample data, and what a Python project needs."""

from __future__ import annotations

import string
from collections.abc import Mapping

_JOB = '''"""Totals per customer and minute of the orders in data/.

millstream run job.py --local    here, without a JVM
millstream run job.py            on Spark
"""

from pathlib import Path

import millstream as ms

DATA = Path(__file__).parent / "data"


def in_cents(order: ms.Row) -> ms.Row:
    return {"customer": order["customer"], "cents": round(order["amount"] * 100), "at": order["at"]}


# Printed rows may come again after a crash. With a sink that keeps them, such as ms.files("out"), leave guarantee= out:
# every row then comes exactly once.
job = ms.Job("$name", guarantee="at_least_once")
orders = job.source("orders", ms.files(str(DATA), format="json"), schema="customer string, amount double, at timestamp")
totals = (
    orders.filter("amount > 0")
    .map(in_cents, schema="customer string, cents long, at timestamp")
    .event_time("at", max_delay="10s")
    .key_by("customer")
    .window(ms.tumbling("1m"))
    .aggregate(cents=ms.sum("cents"), orders=ms.count(), id="totals")
)
totals.sink("totals", ms.print())

if __name__ == "__main__":
    job.run()
'''

_TEST = '''"""The job with scripted input, in this process: no files, no JVM."""

import millstream as ms
from millstream.testing import ABORT, WATERMARK, run_job

from job import job


def order(customer: str, amount: float, at: int) -> ms.Row:
    return {"customer": customer, "amount": amount, "at": at}


def totals(*script: ms.Row) -> list[tuple[str, int, int]]:
    output = run_job(job, {"orders": script})
    return sorted((row["customer"], row["cents"], row["orders"]) for row in output["totals"])


def test_orders_of_a_minute_are_added_up() -> None:
    assert totals(order("ann", 1.25, 1_000), order("bob", 3.0, 2_000), order("ann", 2.0, 59_000)) == [
        ("ann", 325, 2),
        ("bob", 300, 1),
    ]


def test_refunds_do_not_count() -> None:
    assert totals(order("ann", 5.0, 1_000), order("ann", -5.0, 2_000)) == [("ann", 500, 1)]


def test_a_crash_loses_and_doubles_nothing() -> None:
    script = (order("ann", 1.0, 1_000), WATERMARK("30s"), ABORT(), order("ann", 2.0, 40_000))
    assert totals(*script) == [("ann", 300, 2)]
'''

_DATA = """{"customer": "ann", "amount": 12.5, "at": "2026-01-05T09:00:03Z"}
{"customer": "bob", "amount": 8.0, "at": "2026-01-05T09:00:10Z"}
{"customer": "ann", "amount": 7.5, "at": "2026-01-05T09:00:41Z"}
{"customer": "cleo", "amount": 30.0, "at": "2026-01-05T09:00:58Z"}
{"customer": "bob", "amount": -8.0, "at": "2026-01-05T09:01:02Z"}
{"customer": "ann", "amount": 4.25, "at": "2026-01-05T09:01:15Z"}
{"customer": "cleo", "amount": 2.75, "at": "2026-01-05T09:01:30Z"}
{"customer": "bob", "amount": 19.99, "at": "2026-01-05T09:02:20Z"}
"""

_README = """# $name

A Millstream job: `job.py` adds up the orders in `data/` per customer and minute, `test_job.py` tests it.

```sh
pytest                              # scripted input, no JVM
millstream validate job.py          # steps, schemas, guarantee
millstream run job.py --local       # in this process
millstream run job.py               # on Spark, which needs Java 17 or newer: millstream doctor
millstream run job.py --checkpoint checkpoint    # the same command again resumes a run that was stopped
```

Next: another source or sink, in `job.py`; a script with late rows or a crash, in `test_job.py`.
"""

_PYPROJECT = """[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["millstream"]

[project.optional-dependencies]
dev = ["pytest>=9,<10"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
py-modules = ["job"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

_IGNORED = """.venv/
__pycache__/
.pytest_cache/
/out/
/checkpoint/
"""

_FILES: Mapping[str, str] = {
    "job.py": _JOB,
    "test_job.py": _TEST,
    "data/orders.json": _DATA,
    "README.md": _README,
    "pyproject.toml": _PYPROJECT,
    ".gitignore": _IGNORED,
}


def project_files(name: str) -> dict[str, str]:
    """What a project of that name consists of: path → content."""
    return {path: string.Template(text).substitute(name=name) for path, text in _FILES.items()}
