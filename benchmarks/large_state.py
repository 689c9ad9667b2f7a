"""Millions of keys on the `rocksdb` backend: the peak memory of each kind of process against a bound.

The first epochs bring every key once, the others touch keys at random, and with them every page.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

import millstream as ms
from benchmarks import ours
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Side, Sides
from benchmarks.state_backend import KINDS, made_of

SHAPE = {
    "full": Shape(
        epoch_rows=500_000, epochs=13, keys=5_000_000, files_per_epoch=2, warm=10, constant=True, loaded=True
    ),
    "small": Shape(epoch_rows=1_000, epochs=4, keys=2_000, files_per_epoch=2, warm=2, constant=True, loaded=True),
}
BOUNDS = {"worker": 600, "driver": 400, "jvm": 2500}
"""In MB: each Python worker, the driver's Python, and its JVM with 1 GB of heap and RocksDB beside it."""
_NAMES = {"worker": "largest Python worker", "driver": "driver, Python", "jvm": "driver, JVM"}


def _side(kind: str) -> Side:
    def side(setting: Setting) -> Measured:
        shape = SHAPE[setting.scale]
        job, rows = ours.job_over(setting, shape)
        made_of(kind, rows).sink("out", ms.files(setting.output))
        epochs = ours.epochs_of(job, setting)
        figures = {"stored": _size(setting.work / "checkpoint"), "known": _known(setting.output, shape)}
        return Measured(epochs=epochs, figures=figures)

    return side


def _size(folder: Path) -> float:
    """Bytes of the state store's files; changes of the last epochs are among them."""
    return float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "state" in path.parts))


def _known(folder: Path, shape: Shape) -> float:
    """How many rows met a key that was there before: every one behind the first of each key, if no state is lost."""
    files = [str(path) for path in sorted(folder.rglob("*.parquet"))]
    counts = ds.dataset(files, format="parquet").to_table(columns=["n"]).column("n")
    return float(pc.sum(pc.greater(counts, 1)).as_py() or 0) / max(1, len(counts) - shape.keys)


SIDES = {kind: _side(kind) for kind in KINDS}
USES = tuple(("large_state", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Peaks against bounds; size and speed besides."""
    shape, found = SHAPE[scale], []
    for kind, name in KINDS.items():
        measured = sides[kind]
        assert measured.figures["known"] == 1.0, f"{name}: state of some keys was lost"
        what = f"{name}, {shape.keys:,} keys"
        for process, bound in BOUNDS.items():
            peak = measured.memory[process] / 2**20
            found.append(
                Line(
                    what=f"{what}: peak, {_NAMES[process]}",
                    unit="MB",
                    ours=peak,
                    rival=bound,
                    rival_name="the bound",
                    ratio=peak / bound,
                    at_most=1.0,
                )
            )
        found.append(Line(what=f"{what}: state files", unit="MB", ours=measured.figures["stored"] / 2**20))
        found.append(Line(what=f"{what}: an epoch over all pages", unit="s", ours=measured.period(shape.warm)))
    return found
