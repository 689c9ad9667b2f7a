"""What it gains to keep pages in the workers between epochs: `memory` against `rocksdb`, the same job and rows.

The first epochs bring every key once. Each one behind them touches about every page: it is read from the state store, or
the worker that serves the subtask has it still.
"""

from __future__ import annotations

import itertools

import millstream as ms
from benchmarks import ours
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Side, Sides, with_output
from benchmarks.process_function import OUTPUT, CountAndSum
from millstream.plan.deployment import STATE_BACKENDS, StateBackend

SHAPE = {
    "full": Shape(epoch_rows=50_000, epochs=16, keys=400_000, files_per_epoch=2, warm=9, constant=True, loaded=True),
    "small": Shape(epoch_rows=1_000, epochs=4, keys=2_000, files_per_epoch=2, warm=2, constant=True, loaded=True),
}
KINDS = {"aggregate": "count + sum", "process": "process function"}


def made_of(kind: str, rows: ms.DataStream) -> ms.DataStream:
    """Count and sum per key, by built-in aggregates or by a function with a `ValueState`."""
    keyed = rows.key_by("k")
    if kind == "process":
        return keyed.process(CountAndSum, schema=OUTPUT, id="held")
    return keyed.aggregate(n=ms.count(), s=ms.sum("x"), id="held")


def _side(kind: str, engine: str, backend: StateBackend) -> Side:
    def side(setting: Setting) -> Measured:
        job, rows = ours.job_over(setting, SHAPE[setting.scale])
        made_of(kind, rows).sink("out", ms.files(setting.output))
        return with_output(ours.epochs_of(job, setting, engine=engine, state_backend=backend), setting.output)

    return side


SIDES = {
    f"{engine}_{kind}_{backend}": _side(kind, engine, backend)
    for engine in ("local", "spark")
    for kind in KINDS
    for backend in STATE_BACKENDS
}
USES = tuple(("state_backend", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """The period of an epoch, and what the largest worker needs for it on Spark."""
    shape, found = SHAPE[scale], []
    for engine, kind in itertools.product(("local", "spark"), KINDS):
        memory, rocksdb = (sides[f"{engine}_{kind}_{backend}"] for backend in ("memory", "rocksdb"))
        mine, theirs = memory.period(shape.warm), rocksdb.period(shape.warm)
        found.append(
            Line(
                what=f"{engine}, {KINDS[kind]}, {shape.keys:,} keys, {shape.epoch_rows:,} rows an epoch, memory",
                unit="s/epoch",
                ours=mine,
                rival=theirs,
                rival_name="rocksdb",
                ratio=theirs / mine,
                cpu_ratio=rocksdb.cpu_per_row(shape.warm) / memory.cpu_per_row(shape.warm),
                equal=(memory.rows, memory.digest) == (rocksdb.rows, rocksdb.digest),
            )
        )
        if engine == "spark":
            sizes = [side.memory["worker"] / 2**20 for side in (memory, rocksdb)]
            what = f"largest worker, {KINDS[kind]}, memory"
            found.append(Line(what=what, unit="MB", ours=sizes[0], rival=sizes[1], rival_name="rocksdb"))
    return found
