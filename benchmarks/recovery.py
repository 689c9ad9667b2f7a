"""From a kill to the next published epoch: the process is killed and started again, against its first start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.data import Shape, generated
from benchmarks.measure import Epoch, Line, Measured, Setting, Sides

SHAPES = {
    "full": Shape(epoch_rows=50_000, epochs=12, keys=1_000, files_per_epoch=1),
    "small": Shape(epoch_rows=2_000, epochs=8, keys=100, files_per_epoch=1),
}
KILLS = {"full": 3, "small": 1}
TARGET = 2.0
_JOB = """
import sys
import millstream as ms
from benchmarks.data import SCHEMA
job = ms.Job("bench", rows_per_epoch=int(sys.argv[3]))
rows = job.source("rows", ms.files(sys.argv[1]), schema=SCHEMA)
rows.key_by("k").aggregate(n=ms.count(), total=ms.sum("x"), id="totals").sink("out", ms.files(sys.argv[2] + "/output"))
job.run(checkpoint=sys.argv[2] + "/checkpoint", master="local[2]")
"""


def _lists(setting: Setting) -> int:
    """Published epochs: one list each."""
    return len(list(setting.output.glob("_millstream/*/*.json")))


def _until_published(setting: Setting, shape: Shape) -> tuple[subprocess.Popen[bytes], float]:
    """Start the job and wait for its next published epoch."""
    before, began = _lists(setting), time.monotonic()
    command = [
        sys.executable,
        "-c",
        _JOB,
        str(generated(setting.data, shape)),
        str(setting.work),
        str(shape.epoch_rows),
    ]
    job = subprocess.Popen(command, start_new_session=True, cwd=Path.cwd())
    while _lists(setting) <= before:
        if job.poll() is not None:
            msg = f"the job ended with {job.returncode} before it published an epoch"
            raise RuntimeError(msg)
        time.sleep(0.02)
    return job, time.monotonic() - began


def _recovery(setting: Setting) -> Measured:
    shape = SHAPES[setting.scale]
    epochs = []
    for _ in range(KILLS[setting.scale] + 1):
        job, seconds = _until_published(setting, shape)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        epochs.append(Epoch(shape.epoch_rows, seconds, time.time()))
    return Measured(epochs=epochs)


SIDES = {"ours": _recovery}
USES = (("recovery", "ours"),)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Seconds of a restart against those of the first start."""
    found = sides["ours"]
    cold, again = found.epochs[0].seconds, found.period(1)
    return [
        Line(
            what="kill to next epoch",
            unit="s",
            ours=again,
            rival=cold,
            rival_name="first start",
            ratio=again / cold,
            at_most=TARGET,
        )
    ]
