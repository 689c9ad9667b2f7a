"""The benchmark of the start measures a real start, part by part. Figures are produced, never judged."""

import sys
from pathlib import Path

import pytest
from benchmarks import start

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_a_start_is_measured_with_its_parts(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "start_job.py"), "ten"]
    figures = start._measured(command, ROOT / "src", tmp_path)
    assert figures.keys() == {"wall", "cpu", "JVM", "session", "planning", "first epoch", "end"}
    assert all(seconds > 0 for seconds in figures.values()), figures
    parts = sum(figures[name] for name, *_ in start._PARTS)
    assert figures["wall"] / 2 < parts <= figures["wall"], "the parts lie behind one another, within the whole"


def test_every_target_is_a_line():
    sides = ("ours", "before", "pyspark", "ours warm", "before warm", "ours epochs", "before epochs")
    names = ("wall", "cpu", "second", "epoch", *(name for name, *_ in start._PARTS))
    measured = start.Measured(epochs=[], figures={f"{side}: {name}": 1.0 for side in sides for name in names})
    lines = start.lines({"rounds": measured}, "full")
    assert [(line.rival_name, line.at_most) for line in lines if line.at_most] == [
        ("366634e", 0.35),
        ("366634e", 0.45),
        ("PySpark by hand", 0.7),
        ("366634e", 0.6),
        ("366634e", 1.0),
    ]
    assert [line.what for line in lines[5:]] == [f"part: {name}" for name, *_ in start._PARTS]
