"""The figures of a run: from what it has done so far to samples of the list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millstream.api.functions.user_metrics import StepMetrics
from millstream.api.running.result import EpochSummary, PartitionWatermark
from millstream.jobmaster.metrics.metric import Figure
from millstream.jobmaster.metrics.totals import Totals
from millstream.model.counts import StepCounts
from millstream.model.time import MAX_TIME, MIN_TIME

_OUTCOMES = [name for name in StepCounts.__struct_fields__ if name not in ("rows_in", "rows_out")]
_VERTEX = ("rows_in", "rows_out", "bytes_in", "bytes_out")


def figures_of(totals: Totals, *, now: float) -> Iterator[Figure]:
    """All figures; what a run does not know yet is left out.

    Args:
        totals: what it has done.
        now: when somebody looks, in seconds since 1970: what a vertex did in an epoch is less and less of the time since.
    """
    yield from _of_run(totals)
    newest = totals.newest
    if newest is not None:
        yield from _of_epoch(newest)
        yield from _watermarks(newest)
        yield from _loads(newest, _since(totals, newest, now))
        yield from _sources(newest)
        for process, load in newest.processes.items():
            yield Figure("process_cpu_ratio", load.cpu, {"process": process})
            yield Figure("process_memory_ratio", load.memory, {"process": process})
        yield from _jvm(newest)
    if totals.shuffled is not None:
        yield Figure("shuffle_bytes_total", totals.shuffled)
    for source, reasons in totals.dropped.items():
        for reason, rows in reasons.items():
            yield Figure("source_dropped_rows_total", rows, {"source": source, "reason": reason})
    for step, metrics in totals.metrics.items():
        yield from _of_user(step, metrics)


def _of_run(totals: Totals) -> Iterator[Figure]:
    yield Figure("guarantee", 1, {"guarantee": totals.guarantee})
    yield Figure("mode", 1, {"mode": totals.mode})
    for name in ("epochs", "rows_in", "rows_out", "failures"):
        yield Figure(f"{name}_total", getattr(totals, name))
    for step, counts in totals.counts.items():
        for outcome in _OUTCOMES:
            yield Figure("step_rows_total", getattr(counts, outcome), {"step": step, "outcome": outcome})
    for phase, spread in totals.phases.items():
        yield Figure("epoch_duration_seconds", spread, {"phase": phase})
    for sink, spread in totals.latency.items():
        yield Figure("latency_seconds", spread, {"sink": sink})


def _of_epoch(newest: EpochSummary) -> Iterator[Figure]:
    yield Figure("epoch", newest.epoch)
    yield Figure("epoch_seconds", newest.seconds)
    yield Figure("epoch_size_bytes", newest.size)
    if newest.lag is not None:
        yield Figure("lag_rows", newest.lag)
    yield Figure("fencing_token", newest.token)


def _jvm(newest: EpochSummary) -> Iterator[Figure]:
    """Of a run on Spark alone."""
    jvm = newest.jvm
    if jvm is None:
        return
    yield Figure("jvm_heap_bytes", jvm.heap)
    yield Figure("jvm_heap_limit_bytes", jvm.heap_limit)
    if jvm.state is not None:
        yield Figure("rocksdb_memory_bytes", jvm.state)


def _watermarks(newest: EpochSummary) -> Iterator[Figure]:
    for step, mark in newest.steps.items():
        if MIN_TIME < mark < MAX_TIME:
            yield Figure("watermark_ms", mark, {"step": step})
            yield Figure("watermark_lag_seconds", (newest.now - mark) / 1000, {"step": step})
    for each in newest.watermarks:
        yield from _partition(each)


def _partition(partition: PartitionWatermark) -> Iterator[Figure]:
    labels = {"step": partition.step, "partition": partition.partition}
    if partition.is_holding:
        yield Figure("watermark_holder", 1, labels)
    if MIN_TIME < partition.watermark < MAX_TIME:
        yield Figure("partition_watermark_ms", partition.watermark, labels)
    yield Figure("partition_idle", partition.is_idle, labels)
    yield Figure("partition_paused", partition.is_paused, labels)


def _since(totals: Totals, newest: EpochSummary, now: float) -> float:
    """Seconds in which nothing was done but the newest epoch."""
    return max(newest.seconds, 0.0 if totals.before is None else now - totals.before, 1e-6)


def _loads(newest: EpochSummary, since: float) -> Iterator[Figure]:
    load = newest.load
    for vertex, each in load.vertices.items():
        labels = {"vertex": vertex}
        for name in ("busy", "idle", "blocked"):
            yield Figure(f"vertex_{name}_seconds", getattr(each, name), labels)
        yield Figure("vertex_busy_ratio", each.busy / since, labels)
        yield Figure("vertex_blocked_ratio", each.blocked / since, labels)
        yield Figure("vertex_idle_ratio", max(0.0, 1 - (each.busy + each.blocked) / since), labels)
        for name in _VERTEX:
            yield Figure(f"vertex_{name}", getattr(each, name), labels)
    for step, took in load.steps.items():
        yield Figure("step_seconds", took, {"step": step})
    if load.holder is not None:
        yield Figure("holder_share", load.holder.share, {"step": load.holder.step})


def _sources(newest: EpochSummary) -> Iterator[Figure]:
    for name, rows in newest.lags.items():
        yield Figure("source_lag_rows", rows, _of_partition(name))
    for name, why in newest.blocked.items():
        yield Figure("source_blocked", 1, {**_of_partition(name), "reason": why})
    for name, kept in newest.retained.items():
        yield Figure("source_retained_bytes", kept, _of_partition(name))
    for source, share in newest.buffers.items():
        yield Figure("buffer_used_ratio", share, {"source": source})


def _of_partition(name: str) -> Mapping[str, str]:
    source, _, partition = name.partition("/")
    return {"source": source, "partition": partition}


def _of_user(step: str, metrics: StepMetrics) -> Iterator[Figure]:
    """Names of the user's are labels, so that none can clash with ours."""
    for name, amount in metrics.counters.items():
        yield Figure("user_counter_total", amount, {"step": step, "name": name})
    for name, values in metrics.gauges.items():
        for subtask, value in sorted(values.items()):
            yield Figure("user_gauge", value, {"step": step, "name": name, "subtask": str(subtask)})
    for name, spread in metrics.histograms.items():
        yield Figure("user_histogram", spread, {"step": step, "name": name})
