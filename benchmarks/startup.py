"""Start-up in the service: from the submission of a job to its first published epoch, by a driver that waits and by a new one.

Real pieces: a definition is compiled, stored in SQLite, claimed by a node, run by a driver process. Sides run in turns on one
machine, and none while a process gets ready for another; figures are medians. Beside them the same rows by hand in PySpark, from
the start of the command to its first batch.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import select

from benchmarks.measure import Line, Measured, Setting, Sides
from millstream.control.act import acting
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.planning_ahead import PlannerAhead
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import run_of
from millstream.control.drivers.warm_pool import WarmLimits
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.runs import checkpoint
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.control.settings import settings_of

ROUNDS = {"full": 3, "small": 1}
MASTER = "local[2]"
_ROOT = Path(__file__).parents[1]
_WAIT_SECONDS = 180.0
_LOGGED = {"the JVM listens": "JVM", "the session is open": "session", "the query has started": "planning"}
PARTS = ("compile", "process", "JVM", "session", "planning", "first epoch")
"""In their order; what a side does not have, it does not spend."""


class BenchedService:
    """A dispatcher and a node in this process, with drivers that wait or without."""

    def __init__(self, folder: Path, limits: WarmLimits) -> None:
        folder.mkdir(parents=True)
        self._folder, self._limits, self._jobs = folder, limits, 0
        self._metadata = Metadata(f"sqlite:///{folder}/metadata.db")
        migrate.upgrade(self._metadata)
        places = (folder / name for name in ("node", "checkpoints", "artifacts", "keys.json"))
        self._node = RunningNode(self._metadata, NodeOptions(*places, warm=limits))
        self._plane = ControlPlane(self._metadata, self._node)
        self._ahead = PlannerAhead() if any(limits[:2]) else None
        self._plane.start()
        if self._ahead is not None:
            self._ahead.start()

    def await_quiet(self) -> None:
        """Until every process that should wait does."""
        end = time.monotonic() + _WAIT_SECONDS
        wanted = self._limits.local + self._limits.spark
        while time.monotonic() < end:
            if len([each for each in self._node._warm._processes if each.is_ready]) == wanted:
                break
            time.sleep(0.1)
        if self._ahead is not None:
            time.sleep(8)  # the compiling process has no word for it

    def measured(self, engine: str) -> dict[str, float]:
        """Submit a job of ten rows: seconds to its first published epoch, and where they went."""
        self._jobs += 1
        name, began = f"ten-{self._jobs}", time.time()
        definition = {"kind": "declarative", "document": _document(name, self._folder / name)}
        planned = (self._ahead or planned_apart)(definition, code=None, parallelism=None)
        with acting(self._metadata, "bench") as act:
            submit(act, Submission(planned, definition, settings_of({"engine": engine, "master": MASTER})))
            run = start(act, name, StartOptions()).execution_id
        self._plane.wake()
        submitted = time.time()
        seen = self._first_epoch(run)
        self._await_end(run)
        return self._figures(run, engine, began, submitted, seen)

    def _first_epoch(self, run: str) -> float:
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            with acting(self._metadata) as act:
                matching = checkpoint.c.execution_id == run, checkpoint.c.checkpoint_id == 0
                if act.connection.execute(select(checkpoint.c.id).where(*matching)).first() is not None:
                    return time.time()
            time.sleep(0.01)
        msg = f"run {run} published nothing in {_WAIT_SECONDS:g} s"
        raise RuntimeError(msg)

    def _await_end(self, run: str) -> None:
        end = time.monotonic() + _WAIT_SECONDS
        status = ""
        while status != "COMPLETED":
            if time.monotonic() > end:
                msg = f"run {run} is {status} after {_WAIT_SECONDS:g} s"
                raise RuntimeError(msg)
            with acting(self._metadata) as act:
                status = run_of(act, run).status
            time.sleep(0.05)

    def _figures(self, run: str, engine: str, began: float, submitted: float, seen: float) -> dict[str, float]:
        (folder,) = self._folder.glob(f"node/runs/{run}.*")
        reports = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        published = next(each["at"] for each in reports if each["type"] == "epoch")
        process = next(each for each in reports if each["body"].get("to") == "INITIALIZING")
        is_warm = process["body"]["cause"].startswith("a warm driver")
        if is_warm != any(self._limits[:2]):
            msg = f"run {run} began otherwise than it should: {process['body']['cause']}"
            raise RuntimeError(msg)
        marks = {"compile": submitted, "process": process["at"]}
        marks |= _logged_marks(folder / "logs" / "driver.log") if engine == "spark" else {}
        marks["first epoch"] = published
        found, before = {"published": published - began, "seen": seen - began}, began
        for part in (each for each in PARTS if each in marks):
            found[part], before = marks[part] - before, marks[part]
        return found

    def close(self) -> None:
        """End everything."""
        if self._ahead is not None:
            self._ahead.close()
        self._plane.stop()
        self._metadata.close()


def _document(name: str, folder: Path) -> dict[str, Any]:
    fields = {"v": {"kind": "sequence"}}
    steps = [
        {"source": "rows", "from": {"datagen": {"rows": 10, "fields": fields}}},
        {"with_columns": {"k": "v % 2"}},
        {"aggregate": {"n": "count()", "s": "sum(v)"}, "key_by": "k", "id": "sums"},
        {"sink": "out", "to": {"files": {"path": str(folder)}}},
    ]
    return {"job": name, "steps": steps}


def _logged_marks(log: Path) -> dict[str, float]:
    """When each part of Spark's start was over, by the last line that says so before the first epoch."""
    marks = {}
    for line in log.read_text().splitlines():
        found = re.match(r"(\S+Z) DEBUG \S+ (.*)", line)
        if found is not None and found[2] in _LOGGED:
            marks[_LOGGED[found[2]]] = dt.datetime.fromisoformat(found[1]).timestamp()
    return marks


def _by_hand() -> dict[str, float]:
    """Seconds from the command to the first row that the query by hand shows."""
    began = time.time()
    command = [sys.executable, "-u", "-m", "benchmarks.start_rival"]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it was started with a pipe"
        process.stdout.readline()
        shown = time.time()
        process.stdout.read()
    return {"published": shown - began}


def _rounds(setting: Setting) -> Measured:
    subprocess.run([sys.executable, "-m", "millstream.cli.main", "doctor", "--caches", "--make"], check=True)
    warm = BenchedService(setting.work / "warm", WarmLimits(local=1, spark=1, master=MASTER))
    cold = BenchedService(setting.work / "cold", WarmLimits())
    found: dict[str, list[float]] = defaultdict(list)
    sides = {
        "warm local": lambda: warm.measured("local"),
        "warm spark": lambda: warm.measured("spark"),
        "cold local": lambda: cold.measured("local"),
        "cold spark": lambda: cold.measured("spark"),
        "pyspark": _by_hand,
    }
    try:
        for _ in range(ROUNDS[setting.scale]):
            for side, measure in sides.items():
                warm.await_quiet()
                for name, value in {**measure(), "load": os.getloadavg()[0]}.items():
                    found[f"{side}: {name}"].append(value)
    finally:
        warm.close()
        cold.close()
    return Measured(epochs=[], figures={name: statistics.median(values) for name, values in found.items()})


SIDES = {"rounds": _rounds}
USES = (("startup", "rounds"),)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Targets in seconds and as ratios, the query by hand beside them, and where the seconds of each side went."""
    figures = sides["rounds"].figures

    def line(what: str, ours: str, rival: str, name: str, at_most: float | None = None) -> Line:
        mine, theirs = figures[f"{ours}: published"], figures[f"{rival}: published"]
        ratio = mine / theirs
        return Line(what=what, unit="s", ours=mine, rival=theirs, rival_name=name, ratio=ratio, at_most=at_most)

    def seconds(what: str, ours: str, at_most: float) -> Line:
        mine = figures[f"{ours}: published"]
        return Line(what=what, unit="s", ours=mine, rival_name="seconds", ratio=mine, at_most=at_most)

    return [
        seconds("Spark, warm: submit to first epoch", "warm spark", 4.0),
        line("Spark, warm", "warm spark", "cold spark", "cold start on Spark", 0.35),
        line("Spark, warm", "warm spark", "pyspark", "PySpark by hand, cold"),
        line("Spark, cold", "cold spark", "pyspark", "PySpark by hand, cold"),
        seconds("local, warm: submit to first epoch", "warm local", 1.0),
        line("local, warm", "warm local", "cold spark", "cold start on Spark", 0.1),
        line("local, warm", "warm local", "cold local", "cold start, local"),
        *(_part(figures, side, part) for side in _sides(figures) for part in PARTS if f"{side}: {part}" in figures),
        *(
            Line(what=f"{side}: seen in the database", unit="s", ours=figures[f"{side}: seen"])
            for side in _sides(figures)
        ),
        *(
            Line(what=f"{side}: load of the machine", unit="", ours=figures[f"{side}: load"])
            for side in (*_sides(figures), "pyspark")
        ),
    ]


def _sides(figures: dict[str, float]) -> list[str]:
    return [side for side in ("warm spark", "cold spark", "warm local", "cold local") if f"{side}: seen" in figures]


def _part(figures: dict[str, float], side: str, part: str) -> Line:
    """Seconds of a part, and its share of the whole."""
    mine, whole = figures[f"{side}: {part}"], figures[f"{side}: published"]
    return Line(what=f"{side}: {part}", unit="s", ours=mine, rival=whole, rival_name="the whole", ratio=mine / whole)
