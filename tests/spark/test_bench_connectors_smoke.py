"""The comparisons of connectors run on a few rows and both sides give the same ones. Figures are produced, never judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import kafka_server
from tests.servers.kafka import MISSING

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    if not kafka_server.home().exists():
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("bench")
    chosen = [part for name in ("windowed_count", "to_nothing") for part in ("--only", name)]
    command = [sys.executable, "-m", "benchmarks", "connectors", *chosen, "--scale", "0.002", "--results", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = folder.glob("*-connectors.json")
    return json.loads(file.read_text())["lines"]


def test_every_line_has_figures_of_both_sides(lines):
    assert [line["what"] for line in lines] == [
        "Kafka, count per window, Kafka",
        "Kafka, nothing: per core of the workers",
        "Kafka, nothing: two tasks against one loop",
    ]
    for line in lines:
        assert line["ours"] > 0, line
        assert line["rival"] > 0, line


def test_both_sides_give_the_same_rows(lines):
    assert [line["equal"] for line in lines] == [True] * len(lines)
