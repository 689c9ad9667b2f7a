"""Watermarks in the text format that Prometheus reads: per event-time step, and per partition of it."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.api.running.result import EpochSummary, PartitionWatermark
from millstream.model.time import MAX_TIME, MIN_TIME

_HELP = {
    "watermark_ms": "Watermark of an event-time step, milliseconds since 1970.",
    "watermark_lag_seconds": "How far the watermark of a step is behind the clock.",
    "watermark_holder": "Partitions that hold the watermark of their step back.",
    "partition_watermark_ms": "Watermark of a source partition, milliseconds since 1970.",
    "partition_idle": "Whether a partition is idle and holds nobody back.",
    "partition_paused": "Whether a partition is not read because it is ahead of its alignment group.",
}


def watermark_lines(job: str, summary: EpochSummary) -> Iterator[str]:
    """All samples of an epoch, each metric behind its help; what is not known is left out."""
    samples = [*_steps(job, summary), *(sample for each in summary.watermarks for sample in _partition(job, each))]
    for name, text in _HELP.items():
        lines = [f"millstream_{name}{{{labels}}} {value:.15g}" for metric, labels, value in samples if metric == name]
        if lines:
            yield from (f"# HELP millstream_{name} {text}", f"# TYPE millstream_{name} gauge", *lines)


def _steps(job: str, summary: EpochSummary) -> Iterator[tuple[str, str, float]]:
    for step, mark in summary.steps.items():
        if MIN_TIME < mark < MAX_TIME:
            labels = f'job_name="{job}",step="{label(step)}"'
            yield "watermark_ms", labels, mark
            yield "watermark_lag_seconds", labels, (summary.now - mark) / 1000


def _partition(job: str, partition: PartitionWatermark) -> Iterator[tuple[str, str, float]]:
    labels = f'job_name="{job}",step="{label(partition.step)}",partition="{label(partition.partition)}"'
    if partition.is_holding:
        yield "watermark_holder", labels, 1
    if MIN_TIME < partition.watermark < MAX_TIME:
        yield "partition_watermark_ms", labels, partition.watermark
    yield "partition_idle", labels, partition.is_idle
    yield "partition_paused", labels, partition.is_paused


def label(text: str) -> str:
    """The value of a label, escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
