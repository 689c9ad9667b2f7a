"""A backlog in Kafka, read at constant memory: epochs are cut by the bytes of their rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.connectors.bench import Bench, Ran
from benchmarks.connectors.topics import filled
from benchmarks.measure import Line

NAME = "backlog"
_EPOCH_BYTES = 32 << 20


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import our_job
    from millstream.plan.deployment import MemoryBudget

    # Rows alone would admit everything at once: what cuts epochs are their bytes.
    job = ms.Job("bench", rows_per_epoch=facts["rows"], parallelism=2)
    source = ms.kafka(facts["topic"], servers=facts["servers"], start="earliest", until="latest")
    flow = ms.FlowControl(target="10s", capacity_bytes=_EPOCH_BYTES)
    rows = job.source("orders", source, schema="id long, user string, amount double, at long, city string", flow=flow)
    rows.key_by("user").aggregate(n=ms.count(), total=ms.sum("id"), id="counted").sink("out", ms.files(work / "output"))
    return our_job.measured(job, work, memory=MemoryBudget(epoch_bytes=_EPOCH_BYTES))


SIDES = {"ours": _ours}


def measure(bench: Bench) -> list[Line]:
    """How much memory grows, and whether every row was counted."""
    rows = bench.rows(5_000_000)
    topic = filled(bench.broker, rows)
    began = time.time()
    ran = bench.side(NAME, "ours", servers=bench.broker.servers, topic=topic, rows=rows)
    bench.console.print(f"  {rows:,} rows in {time.time() - began:.0f} s, {len(ran.measured.epochs)} epochs")
    first, last = _thirds(ran, bench)
    what = f"backlog of {rows:,} rows: memory at the end against the beginning"
    return [
        Line(
            what=what, unit="MB", ours=last, rival=first, rival_name="the first third of its epochs", ratio=last / first,
            at_most=1.15, equal=_is_whole(ran, rows),
        )
    ]  # fmt: skip


def _thirds(ran: Ran, bench: Bench) -> tuple[float, float]:
    """The highest resident megabytes of all processes in the first and in the last third of the epochs."""
    times, sizes = np.array(ran.watch.times), np.array(ran.watch.resident) / (1 << 20)
    ends = [epoch.ended for epoch in ran.measured.epochs]
    # The first epochs start workers and compile; they are short, since no size of rows is known then.
    steady = sizes[(times > ends[min(2, len(ends) - 1)]) & (times <= ends[-1])]
    parts = np.array_split(steady if len(steady) >= 10 else sizes, 10)
    bench.console.print("  MB over time: " + ", ".join(f"{part.max():.0f}" for part in parts))
    return float(max(part.max() for part in parts[:3])), float(max(part.max() for part in parts[-3:]))


def _is_whole(ran: Ran, rows: int) -> bool:
    """Whether the newest counts and sums, of each user the highest, are those of all rows."""
    import pyarrow.dataset as ds

    files = [str(path) for path in sorted((ran.work / "output").rglob("*.parquet"))]
    newest = ds.dataset(files, format="parquet").to_table().to_pandas().groupby("user")[["n", "total"]].max().sum()
    read = sum(epoch.rows for epoch in ran.measured.epochs)
    return (int(newest["n"]), int(newest["total"]), read) == (rows, rows * (rows - 1) // 2, rows)
