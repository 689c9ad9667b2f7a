"""The process of our own queries, and what it wrote."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from examples.nexmark.rivals.process import ALL
from examples.nexmark.rivals.setting import MASTER, PARALLELISM, Answer, Setting

from millstream.api.running.result import EpochSummary
from millstream.driver.run import run as run_on_spark
from millstream.plan.deployment import Deployment


def run(setting: Setting) -> Answer:
    """Run a query until its input ends; time counts from the first epoch to the end of the last."""
    _ran(setting.ready)
    times = _ran(setting)
    return Answer(began=times[0][0], ended=times[-1][1])


def _ran(setting: Setting) -> list[tuple[float, float]]:
    """When each epoch began and ended."""
    job = ALL[setting.query].job(
        setting.events,
        setting.output,
        requirements={"rows_per_epoch": setting.epoch_events, "parallelism": PARALLELISM},
        folder=Path(setting.data) if setting.input == "files" else None,
        epoch_events=setting.epoch_events,
    )
    times: list[tuple[float, float]] = []

    def note(epoch: EpochSummary) -> None:
        now = time.time()
        times.append((now - epoch.seconds, now))

    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(setting.checkpoint))).deployment
    run_on_spark(deployment, listener=note)
    return times


def result(setting: Setting) -> pa.Table:
    """The table that the rows come to."""
    return ALL[setting.query].result(setting.output)
