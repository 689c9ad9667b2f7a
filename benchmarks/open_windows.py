"""Windows with a function or a reduction: what a row costs while its key has from ten to four thousand open windows.

One key, a row in one window, in epochs one after the other; no window closes before the last. On the local engine, without a JVM.
"""

from __future__ import annotations

import time
from typing import Any

import millstream as ms
from benchmarks.measure import Epoch, Line, Measured, Setting, Side, Sides
from millstream.graph.windows.window import WindowSpec
from millstream.testing.harness import run_job

OPEN = (10, 100, 1_000, 4_000)
EPOCHS, RUNS = {"full": 10, "small": 2}, {"full": 5, "small": 1}
EPOCH_ROWS = {"full": 4_000, "small": 400}
_SLIDING_ROWS = {"full": 200, "small": 20}


def _shown(key: dict[str, Any], window: ms.TimeWindow, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"k": key["k"], "n": len(rows)}]


def _summed(held: dict[str, Any], came: dict[str, Any]) -> dict[str, Any]:
    return {**held, "x": held["x"] + came["x"]}


def _job(closing: str, window: WindowSpec) -> ms.Job:
    job = ms.Job("open-windows")
    rows = job.source("in", ms.memory([]), schema="k string, x long, at long").event_time("at", max_delay="100d")
    windows = rows.key_by("k").window(window)
    if closing == "process":
        made = windows.process(_shown, schema="k string, n long", id="windows")
    else:
        made = windows.reduce(_summed, id="windows")
    made.sink("out", ms.collect("out"))
    return job


def _measured(job: ms.Job, rows: list[dict[str, Any]], epoch_rows: int, runs: int) -> Measured:
    """CPU seconds of the whole job, for other load on the machine changes them little."""
    epochs, made = [], 0
    for _ in range(runs):
        began = time.process_time()
        made = len(run_job(job, {"in": rows}, rows_per_epoch=epoch_rows).rows("out"))
        epochs.append(Epoch(len(rows), time.process_time() - began, time.time()))
    return Measured(epochs=epochs, rows=made)


def _tumbling(closing: str, windows: int) -> Side:
    def side(setting: Setting) -> Measured:
        count, epoch_rows = EPOCHS[setting.scale], EPOCH_ROWS[setting.scale]
        # A whole number that has no factor in common with the number of windows visits all of them.
        rows = [{"k": "a", "x": 1, "at": place * 7 % windows * 1000} for place in range(count * epoch_rows)]
        return _measured(_job(closing, ms.tumbling("1s")), rows, epoch_rows, RUNS[setting.scale])

    return side


def _sliding(closing: str) -> Side:
    def side(setting: Setting) -> Measured:
        rows = [{"k": "a", "x": 1, "at": place * 1000} for place in range(_SLIDING_ROWS[setting.scale])]
        return _measured(_job(closing, ms.sliding("1h", "10s")), rows, len(rows), RUNS[setting.scale])

    return side


CLOSINGS = ("process", "reduce")
SIDES = {f"{closing}{windows}": _tumbling(closing, windows) for closing in CLOSINGS for windows in OPEN}
SIDES |= {f"{closing}_sliding": _sliding(closing) for closing in CLOSINGS}
USES = tuple(("open_windows", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """What a row costs, against the same with ten open windows; and what a row in 360 sliding windows costs."""

    def cost(side: str) -> float:
        return min(1e6 * epoch.seconds / epoch.rows for epoch in sides[side].epochs)

    found = [
        Line(
            what=f"{closing}, {windows:,} open windows",
            unit="us/row",
            ours=cost(f"{closing}{windows}"),
            rival=cost(f"{closing}{OPEN[0]}"),
            rival_name=f"ours with {OPEN[0]}",
            ratio=cost(f"{closing}{windows}") / cost(f"{closing}{OPEN[0]}"),
            at_most=1.5,
        )
        for closing in CLOSINGS
        for windows in OPEN
    ]
    return found + [
        Line(what=f"{closing}, sliding 1 h every 10 s", unit="us/row", ours=cost(f"{closing}_sliding"))
        for closing in CLOSINGS
    ]
