"""What waits at the sources and what was dropped there, in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millstream.api.running.result import EpochSummary
from millstream.jobmaster.metrics.watermarks import label

Dropped = Mapping[str, Mapping[str, int]]


def source_lines(job: str, newest: EpochSummary | None, dropped: Dropped) -> Iterator[str]:
    """All samples, each metric behind its help; what no source tells is left out."""
    if newest is not None:
        lags = [f"{_of_partition(job, name)}}} {rows}" for name, rows in newest.lags.items()]
        yield from _metric("source_lag_rows", "gauge", "Rows that wait in a partition of a source.", lags)
        blocked = [f'{_of_partition(job, name)},reason="{label(why)}"}} 1' for name, why in newest.blocked.items()]
        yield from _metric("source_blocked", "gauge", "Partitions that stand still although rows wait there.", blocked)
        retained = [f"{_of_partition(job, name)}}} {kept}" for name, kept in newest.retained.items()]
        text = "Bytes that the outside keeps for a source until its rows are published, such as the log behind a slot."
        yield from _metric("source_retained_bytes", "gauge", text, retained)
    counted = [
        f'job_name="{job}",source="{label(source)}",reason="{label(reason)}"}} {rows}'
        for source, reasons in dropped.items()
        for reason, rows in reasons.items()
    ]
    yield from _metric(
        "source_dropped_rows_total", "counter", "Rows that were jumped over and are never read.", counted
    )


def _of_partition(job: str, name: str) -> str:
    source, _, partition = name.partition("/")
    return f'job_name="{job}",source="{label(source)}",partition="{label(partition)}"'


def _metric(name: str, kind: str, text: str, samples: list[str]) -> Iterator[str]:
    shown = f"millstream_{name}"
    if samples:
        yield from (f"# HELP {shown} {text}", f"# TYPE {shown} {kind}", *(f"{shown}{{{each}" for each in samples))
