"""Runs a job of ours on `local[2]` and notes its epochs."""

from __future__ import annotations

import importlib
import time
from typing import Any

import millstream as ms
from benchmarks.data import Shape, generated
from benchmarks.measure import Epoch, Setting
from millstream.plan.deployment import Deployment

MASTER = "local[2]"
_ENGINES = {"local": "millstream.local.run", "spark": "millstream.driver.run"}


def job_over(setting: Setting, shape: Shape) -> tuple[ms.Job, ms.DataStream]:
    """A job that reads the files of a shape, one epoch's worth at a time."""
    job = ms.Job("bench", rows_per_epoch=shape.epoch_rows)
    return job, job.source("rows", ms.files(generated(setting.data, shape)), schema=shape.schema)


def epochs_of(job: ms.Job, setting: Setting, *, engine: str = "spark", **options: Any) -> list[Epoch]:
    """Run to the end; the epochs that read rows. The local engine would write all state in every epoch, so it writes none."""
    epochs: list[Epoch] = []
    checkpoint = str(setting.work / "checkpoint") if engine == "spark" else None
    deployment = job.compile(Deployment(master=MASTER, checkpoint=checkpoint, **options)).deployment
    run = importlib.import_module(_ENGINES[engine]).run
    run(deployment, listener=lambda epoch: epochs.append(Epoch(epoch.rows_in, epoch.seconds, time.time())))
    return [epoch for epoch in epochs if epoch.rows]
