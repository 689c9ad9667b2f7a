"""The benchmarks run at their small scale and both sides give the same rows. Figures are produced, never judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
EPOCH = "an epoch over all pages"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "memory",
        "filter_files",
        "large_state",
        "--scale",
        "small",
        "--results",
        folder,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = folder.glob("*-small.json")
    return json.loads(file.read_text()) | {"printed": done.stdout}


def test_every_line_has_figures(results):
    assert [line["what"] for line in results["lines"]] == [
        "peak memory, driver, Python",
        "peak memory, driver, JVM",
        "peak memory, Python workers",
        "peak memory, all together",
        "parquet, filter, parquet",
        *(
            f"{kind}, 2,000 keys: {what}"
            for kind in ("count + sum", "process function")
            for what in (
                "peak, largest Python worker",
                "peak, driver, Python",
                "peak, driver, JVM",
                "state files",
                EPOCH,
            )
        ),
    ]
    for line in results["lines"]:
        assert line["ours"] > 0, line
    assert "parquet, filter, parquet" in results["printed"]


@pytest.mark.parametrize(
    ("ours", "rival", "read"),
    [
        ("keyed_aggregate.ours", "keyed_aggregate.catalyst", [40_000] * 3),
        ("filter_files.ours", "filter_files.files", [40_000] * 3),
    ],
)
def test_both_sides_read_the_same_epochs_and_give_the_same_rows(results, ours, rival, read):
    mine, theirs = results["sides"][ours], results["sides"][rival]
    assert [rows for rows, *_ in mine["epochs"]] == [rows for rows, *_ in theirs["epochs"]] == read
    assert mine["rows"] == theirs["rows"] > 0
    assert mine["digest"] == theirs["digest"] != ""


def test_unequal_rows_would_show(results):
    [line] = [line for line in results["lines"] if line["what"] == "parquet, filter, parquet"]
    assert line["equal"] is True
    assert results["sides"]["filter_files.ours"]["digest"] != results["sides"]["keyed_aggregate.ours"]["digest"]


def test_an_unknown_comparison_is_refused():
    command = [sys.executable, "-m", "benchmarks", "no_such"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown comparison no_such; known: keyed_aggregate" in done.stderr
