"""Start-up: the whole command of a job of ten rows, against the same command before the fast start and against plain PySpark.

Sides run in turns, so that other load on the machine meets all of them; figures are medians. The version before is taken from
the repository's history.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.measure import Line, Measured, Setting, Sides
from benchmarks.process_tree import CpuTally

BEFORE = "366634e"
ROUNDS = {"full": 5, "small": 1}
_ROOT = Path(__file__).parents[1]
_PARTS = (
    ("JVM", "the JVM is starting", "the JVM listens"),
    ("session", "the JVM listens", "the session is open"),
    ("planning", "the session is open", "the query has started"),
    ("first epoch", "the query has started", "the first epoch is published"),
    ("end", "the first epoch is published", ""),
)


def _rounds(setting: Setting) -> Measured:
    before = _version_before(setting.work)
    job = str(_ROOT / "benchmarks" / "start_job.py")
    sides = {
        "ours": ([sys.executable, job, "ten"], _ROOT / "src"),
        "before": ([sys.executable, job, "ten"], before),
        "pyspark": ([sys.executable, "-m", "benchmarks.start_rival"], _ROOT),
        "ours warm": ([sys.executable, job, "warm"], _ROOT / "src"),
        "before warm": ([sys.executable, job, "warm"], before),
        "ours epochs": ([sys.executable, job, "epochs"], _ROOT / "src"),
        "before epochs": ([sys.executable, job, "epochs"], before),
    }
    subprocess.run([sys.executable, "-m", "millstream.cli.main", "doctor", "--caches", "--make"], check=True)
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS[setting.scale]):
        for side, (command, source) in sides.items():
            for name, value in _measured(command, source, setting.work).items():
                found[f"{side}: {name}"].append(value)
    return Measured(epochs=[], figures={name: statistics.median(values) for name, values in found.items()})


def _version_before(work: Path) -> Path:
    """The sources of the version to compare with."""
    folder = work / "before"
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=_ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
    return folder / "src"


def _measured(command: list[str], source: Path, work: Path) -> dict[str, float]:
    """Wall and CPU seconds of a command with all its processes, and of the parts it tells of."""
    told = work / "told.json"
    told.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONPATH": str(source)}
    began = time.time()
    process = subprocess.Popen([*command, str(told)], env=env, cwd=work, stdout=subprocess.DEVNULL)
    tally = CpuTally(process.pid)
    while process.poll() is None:
        tally.note()
        time.sleep(0.02)
    ended = time.time()
    if process.returncode:
        msg = f"{' '.join(command)} ended with {process.returncode}"
        raise RuntimeError(msg)
    found = {"wall": ended - began, "cpu": tally.seconds}
    return found | (_parts(json.loads(told.read_text()), ended) if told.exists() else {})


def _parts(told: dict[str, float], ended: float) -> dict[str, float]:
    found = {name: told[name] for name in ("second", "epoch") if name in told}
    at = {**told, "": ended - told["began"]}
    return found | {name: at[last] - at[first] for name, first, last in _PARTS if first in at and last in at}


SIDES = {"rounds": _rounds}
USES = (("start", "rounds"),)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Wall and CPU of the command, its parts, the second job of a session, and an epoch."""
    figures = sides["rounds"].figures

    def line(what: str, ours: str, rival: str, name: str, at_most: float) -> Line:
        mine, theirs = figures[ours], figures[rival]
        ratio = mine / theirs
        return Line(what=what, unit="s", ours=mine, rival=theirs, rival_name=name, ratio=ratio, at_most=at_most)

    parts = [
        Line(what=f"part: {name}", unit="s", ours=figures[f"ours: {name}"])
        for name, *_ in _PARTS
        if f"ours: {name}" in figures
    ]
    return [
        line("ten rows, wall", "ours: wall", "before: wall", BEFORE, 0.35),
        line("ten rows, CPU", "ours: cpu", "before: cpu", BEFORE, 0.45),
        line("ten rows, wall", "ours: wall", "pyspark: wall", "PySpark by hand", 0.7),
        line("second job of a session", "ours warm: second", "before warm: second", BEFORE, 0.6),
        line("an epoch of one row", "ours epochs: epoch", "before epochs: epoch", BEFORE, 1.0),
        *parts,
    ]
