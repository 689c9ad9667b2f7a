"""Jobs of ours over topics, and their epochs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import millstream as ms
from benchmarks.connectors.topics import SCHEMA
from benchmarks.measure import Epoch
from millstream.api.running.result import EpochSummary
from millstream.driver.run import run
from millstream.plan.deployment import Deployment

MASTER = "local[2]"


def orders(facts: dict[str, Any], **requirements: Any) -> tuple[ms.Job, ms.DataStream]:
    """A job that reads the orders of a topic up to its end."""
    job = ms.Job("bench", rows_per_epoch=facts["epoch_rows"], parallelism=2, **requirements)
    source = ms.kafka(facts["topic"], servers=facts["servers"], start="earliest", until="latest")
    return job, job.source("orders", source, schema=SCHEMA)


def measured(job: ms.Job, work: Path, **options: Any) -> dict[str, Any]:
    """Run to the end; the epochs that read rows."""
    epochs: list[Epoch] = []

    def note(epoch: EpochSummary) -> None:
        if epoch.rows_in:
            epochs.append(Epoch(epoch.rows_in, epoch.seconds, time.time()))

    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(work / "checkpoint"), **options)).deployment
    run(deployment, listener=note)
    return {"epochs": epochs}
