"""How long one test of a windowed job takes on the local harness, without a JVM."""

from __future__ import annotations

import time
from typing import Any

import millstream as ms
from benchmarks.measure import Epoch, Line, Measured, Setting, Sides
from millstream.testing.harness import run_job

RUNS = {"full": 100, "small": 5}
_ROWS = [{"user": "ab"[place % 2], "amount": float(place), "at": place * 1000} for place in range(120)]


def _job() -> ms.Job:
    job = ms.Job("orders-per-minute")
    orders = job.source("orders", ms.files("orders"), schema="user string, amount double, at long")
    totals = orders.event_time("at").filter("amount > 0").key_by("user").window(ms.tumbling("1m"))
    totals.aggregate(total=ms.sum("amount"), n=ms.count(), id="totals").sink("out", ms.files("out"))
    return job


def _ours(setting: Setting) -> Measured:
    epochs = []
    made: list[Any] = []
    for _ in range(RUNS[setting.scale]):
        began = time.time()
        made = run_job(_job(), {"orders": _ROWS}).rows("out")
        epochs.append(Epoch(len(_ROWS), time.time() - began, time.time()))
    return Measured(epochs=epochs, rows=len(made))


SIDES = {"ours": _ours}
USES = (("harness", "ours"),)


def lines(sides: Sides, scale: str) -> list[Line]:
    """One line, no rival: without the harness such a test starts a JVM."""
    return [Line(what="test of a windowed job on the harness", unit="ms", ours=1000 * sides["ours"].period(1))]
