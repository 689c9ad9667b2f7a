"""Bounded jobs of ours on Spark, start-up left out: the same job runs over a few rows first, in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import millstream as ms
from benchmarks.connectors.our_job import MASTER
from benchmarks.measure import Epoch
from millstream.api.running.result import EpochSummary
from millstream.driver.run import run
from millstream.plan.deployment import Deployment


def measured(work: Path, job_over: Callable[[str, Path], ms.Job], names: tuple[str, str]) -> dict[str, Any]:
    """Run both; one epoch stands for the second run, from the start of its first epoch to the end of its last."""
    spans: list[tuple[float, float, int]] = []
    for name in names:
        spans = []

        def note(epoch: EpochSummary, spans: list[tuple[float, float, int]] = spans) -> None:
            spans.append((time.time() - epoch.seconds, time.time(), epoch.rows_in))

        job = job_over(name, work / "output" / name)
        run(
            job.compile(Deployment(master=MASTER, checkpoint=str(work / f"checkpoint-{name}"))).deployment,
            listener=note,
        )
    rows, began, ended = sum(span[2] for span in spans), spans[0][0], spans[-1][1]
    return {"epochs": [Epoch(rows, ended - began, ended)], "figures": {"began": began, "epochs": float(len(spans))}}
