"""What a savepoint costs: the epoch that carries one against an ordinary one, and the first epoch of a restored job.

Each key of a process function holds a small tuple. All keys are loaded, then every epoch touches one of them.
"""

from __future__ import annotations

import importlib
import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import millstream as ms
from benchmarks.measure import Epoch, Line, Measured, Setting, Side, Sides
from benchmarks.ours import MASTER
from millstream.api.running.control import FORMS, Form, Pending, RunControl
from millstream.api.running.result import EpochSummary, RunResult
from millstream.checkpoint.savepoint import read_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start
from millstream.testing import ADVANCE_CLOCK

KEYS = {"full": (100_000, 1_000_000), "small": (1_000, 4_000)}
TIMES = {"full": 5, "small": 1}
"""Savepoints of each form; the figures are their medians."""
_ENGINES = {"local": "millstream.local.run", "spark": "millstream.driver.run"}
_LOADS = 4
"""Epochs that load the keys."""
_APART = 3
"""From one savepoint to the next, in epochs."""
_TICKS = [{"k": 0, "x": 0.5}, dict(ADVANCE_CLOCK(0))] * 200


class Held(ms.ProcessFunction):
    """What is stored for a key."""

    held: ms.ValueState[tuple[int, float]] = ms.ValueState(tuple[int, float])

    def process(self, row: Any, ctx: ms.Context) -> Iterator[dict[str, Any]]:
        n, s = self.held.value() or (0, 0.0)
        self.held.update((n + 1, s + row["x"]))
        yield from ()


class _Watched:
    """Asks a run for savepoints, one by one, and notes the seconds of every epoch and of every answer."""

    def __init__(self, to: Path, warm: int, forms: list[Form]) -> None:
        self.control = RunControl()
        self.began = time.time()
        self.first: float | None = None
        """Seconds from the start of the run to its first published epoch."""
        self.epochs: dict[int, Epoch] = {}
        self.answers: list[tuple[Form, float, str]] = []
        self._to, self._warm, self._forms = str(to), warm, iter(forms)
        self._waits: list[threading.Thread] = []

    def __call__(self, summary: EpochSummary) -> None:
        """The listener of the run."""
        now = time.time()
        if self.first is None:
            self.first = now - self.began
        self.epochs[summary.epoch] = Epoch(summary.rows_in, summary.seconds, now)
        passed = len(self.epochs) - self._warm
        if passed >= 0 and passed % _APART == 0:
            form = next(self._forms, None)
            pending = self.control.ask(
                "suspend" if form is None else "savepoint", to=self._to, form=form or "canonical"
            )
            if form is not None:
                wait = threading.Thread(target=self._wait, args=(pending, form, now))
                wait.start()
                self._waits.append(wait)

    def _wait(self, pending: Pending, form: Form, asked: float) -> None:
        answer = pending.wait(600)
        assert answer.done, answer.error
        self.answers.append((form, time.time() - asked, answer.path))

    def settle(self) -> None:
        """All answers are there."""
        for wait in self._waits:
            wait.join()

    def saved(self, form: Form) -> list[str]:
        return [path for each, _, path in self.answers if each == form]

    @property
    def carriers(self) -> dict[int, float]:
        """The epochs that carried a canonical savepoint, with their seconds."""
        found = [read_savepoint(path).epoch for path in self.saved("canonical")]
        return {epoch: self.epochs[epoch].seconds for epoch in found}

    def ordinary(self, skip: int) -> float:
        """The median seconds of an epoch without a savepoint; the last one carries that which ends the run."""
        plain = [epoch.seconds for number, epoch in self.epochs.items() if number not in self.carriers]
        return statistics.median(plain[skip:-1])


def _job(keys: int, parallelism: int) -> ms.Job:
    # Both sources get half the rows of an epoch.
    job = ms.Job("bench", rows_per_epoch=2 * keys // _LOADS, parallelism=parallelism)
    fields = {"k": {"kind": "sequence"}, "x": {"kind": "float"}}
    loaded = job.source("load", ms.datagen(fields=fields, rows=keys))
    ticks = job.source("ticks", ms.memory(_TICKS), schema="k long, x double")
    both = loaded.select("k", "x").union(ticks)
    both.key_by("k").process(Held, schema="k long", id="held").sink("out", ms.collect("out"))
    return job


def _run(engine: str, job: ms.Job, place: Path, watched: _Watched, savepoint: str | None = None) -> RunResult:
    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(place))).deployment
    run = importlib.import_module(_ENGINES[engine]).run
    start = Start(savepoint=savepoint, newer_output="keep")
    result: RunResult = run(deployment, listener=watched, control=watched.control, start=start)
    watched.settle()
    return result


def _measured(setting: Setting, engine: str, place: int) -> Measured:
    keys, times = KEYS[setting.scale][place], TIMES[setting.scale]
    to = setting.work / "savepoints"
    forms = [form for form in FORMS for _ in range(times)]
    taken = _Watched(to, _LOADS + 4, forms)
    result = _run(engine, _job(keys, 2), setting.work / "checkpoint", taken)
    assert result.savepoint is not None
    assert read_savepoint(result.savepoint).entries("held") == keys
    figures = {
        "ordinary": taken.ordinary(_LOADS + 2),
        "carrier": statistics.median(taken.carriers.values()),
        "bytes": float(verify_savepoint(result.savepoint).bytes),
        "native": statistics.median(seconds for form, seconds, _ in taken.answers if form == "native"),
        "native_bytes": float(verify_savepoint(taken.saved("native")[-1]).bytes),
    }
    restores = [_restored(setting, engine, keys, 3, result.savepoint) for _ in range(min(times, 3))]
    copies = [_restored(setting, engine, keys, 2, taken.saved("native")[-1]) for _ in range(min(times, 3))]
    figures |= {
        "restored_ordinary": statistics.median(each.ordinary(2) for each in restores),
        "restored_first": statistics.median(each.epochs[0].seconds for each in restores),
        "restored_after": statistics.median(each.first or 0.0 for each in restores),
        "native_restored_after": statistics.median(each.first or 0.0 for each in copies),
    }
    return Measured(epochs=list(taken.epochs.values()), rows=keys, figures=figures)


_numbers = itertools.count()


def _restored(setting: Setting, engine: str, keys: int, parallelism: int, savepoint: str) -> _Watched:
    """Go on from a savepoint for some epochs; a second savepoint proves that every key came along."""
    watched = _Watched(setting.work / "savepoints", 9, [])
    place = setting.work / f"restored-{next(_numbers)}"
    result = _run(engine, _job(keys, parallelism), place, watched, savepoint)
    assert result.savepoint is not None
    assert read_savepoint(result.savepoint).entries("held") == keys
    return watched


def _side(engine: str, place: int) -> Side:
    return partial(_measured, engine=engine, place=place)


SIDES = {f"{engine}_{size}": _side(engine, place) for engine in _ENGINES for place, size in enumerate(("few", "many"))}
USES = tuple(("savepoint", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Per engine: the cost of a key at many keys against few, and the seconds behind it."""
    found: list[Line] = []
    for engine in _ENGINES:
        few, many = sides[f"{engine}_few"], sides[f"{engine}_many"]
        found += [
            _per_key(f"{engine}: canonical savepoint, cost of a key", _taking, few, many),
            _per_key(f"{engine}: first epoch of a restore, 2 to 3, for each key", _restoring, few, many),
        ]
        found += [
            _seconds(f"{engine}: {what}, {side.rows:,} keys", side.figures[name], side.figures[against], against)
            for side in (few, many)
            for what, name, against in _SHOWN
        ]
        found += [
            Line(what=f"{engine}: bytes of a key, {form}", unit="B", ours=many.figures[name] / many.rows)
            for form, name in (("canonical", "bytes"), ("native", "native_bytes"))
        ]
    return found


_SHOWN = (
    ("epoch that carries a canonical savepoint", "carrier", "ordinary"),
    ("native savepoint, asked to answered", "native", "ordinary"),
    ("first epoch of a restore, 2 to 3", "restored_first", "restored_ordinary"),
    ("start to first epoch, canonical, 2 to 3", "restored_after", "native_restored_after"),
)
_AGAINST = {
    "ordinary": "an ordinary epoch",
    "restored_ordinary": "an ordinary epoch behind it",
    "native_restored_after": "native, same plan",
}


def _taking(side: Measured) -> float:
    return side.figures["carrier"] - side.figures["ordinary"]


def _restoring(side: Measured) -> float:
    return side.figures["restored_first"]


def _per_key(what: str, cost: Any, few: Measured, many: Measured) -> Line:
    mine, theirs = 1e6 * cost(many) / many.rows, 1e6 * cost(few) / few.rows
    ratio = mine / theirs if theirs > 0 else None
    name = f"at {few.rows:,} instead of {many.rows:,} keys"
    return Line(what=what, unit="us", ours=mine, rival=theirs, rival_name=name, ratio=ratio, at_most=1.3)


def _seconds(what: str, mine: float, theirs: float, against: str) -> Line:
    return Line(what=what, unit="s", ours=mine, rival=theirs, rival_name=_AGAINST[against], ratio=mine / theirs)
