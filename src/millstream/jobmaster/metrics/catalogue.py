"""The list of figures of one run: whoever writes, shows or explains them reads it here."""

from __future__ import annotations

from millstream.jobmaster.metrics.metric import Metric, MetricKind

_EPOCH = "report of the newest epoch"
_EPOCHS = "reports of all epochs of the run"
_JVM = "Java's own account, for runs on Spark"
_PROCESSES = "/proc of the run's processes, when an epoch was published"


def _run(name: str, kind: MetricKind, text: str, *labels: str, unit: str = "", origin: str = _EPOCH) -> Metric:
    return Metric(name=name, kind=kind, text=text, labels=labels, unit=unit, origin=origin)


def _total(name: str, text: str, *labels: str, unit: str = "rows") -> Metric:
    return _run(name, "counter", text, *labels, unit=unit, origin=_EPOCHS)


RUN_METRICS = (
    _run("guarantee", "gauge", "The guarantee in force: 1.", "guarantee", origin="the job's plan"),
    _run("mode", "gauge", "The mode of the job: 1.", "mode", origin="the job's plan"),
    _total("epochs_total", "Epochs published by this run.", unit="epochs"),
    _total("rows_in_total", "Rows read by this run."),
    _total("rows_out_total", "Rows that reached a sink in this run."),
    _total("failures_total", "Failures of this run: those it got over, and the one that ended it.", unit="failures"),
    _total("step_rows_total", "What became of the rows of a step, sinks included.", "step", "outcome"),
    _run("epoch", "gauge", "Newest published epoch."),
    _run("epoch_seconds", "gauge", "How long the newest epoch took.", unit="seconds"),
    _run(
        "epoch_duration_seconds",
        "histogram",
        "How long epochs took: tasks (rows through all steps, state written), prepare, persist, publish, and total.",
        "phase",
        unit="seconds",
        origin=_EPOCHS,
    ),
    _run(
        "latency_seconds",
        "histogram",
        "Rows by the time between their event time, or their admission where they have none, and their publication.",
        "sink",
        unit="seconds",
        origin=_EPOCHS,
    ),
    _run(
        "epoch_size_bytes",
        "gauge",
        "What the newest epoch wrote of state and staged for sinks.",
        unit="bytes",
    ),
    _run("lag_rows", "gauge", "Rows that wait at the sources, where they can tell.", unit="rows"),
    _run("fencing_token", "gauge", "Token of the owner of the checkpoint."),
    _run("watermark_ms", "gauge", "Watermark of an event-time step since 1970.", "step", unit="milliseconds"),
    _run(
        "watermark_lag_seconds", "gauge", "How far the watermark of a step is behind the clock.", "step", unit="seconds"
    ),
    _run("watermark_holder", "gauge", "Partitions that hold the watermark of their step back: 1.", "step", "partition"),
    _run(
        "partition_watermark_ms",
        "gauge",
        "Watermark of a source partition since 1970.",
        "step",
        "partition",
        unit="milliseconds",
    ),
    _run("partition_idle", "gauge", "Whether a partition is idle and holds nobody back.", "step", "partition"),
    _run(
        "partition_paused",
        "gauge",
        "Whether a partition is not read because it is ahead of its alignment group.",
        "step",
        "partition",
    ),
    _run(
        "vertex_busy_seconds",
        "gauge",
        "What the slowest subtask of a vertex took in the newest epoch.",
        "vertex",
        unit="seconds",
    ),
    _run("vertex_idle_seconds", "gauge", "How long a vertex waited for what runs before it.", "vertex", unit="seconds"),
    _run(
        "vertex_blocked_seconds", "gauge", "How long a vertex waited for what runs behind it.", "vertex", unit="seconds"
    ),
    _run(
        "vertex_busy_ratio",
        "gauge",
        "The share of the time between two epochs that a vertex worked.",
        "vertex",
        unit="ratio",
    ),
    _run(
        "vertex_idle_ratio",
        "gauge",
        "The share of the time between two epochs that a vertex had nothing to do.",
        "vertex",
        unit="ratio",
    ),
    _run(
        "vertex_blocked_ratio",
        "gauge",
        "The share of the time between two epochs that a vertex waited for what runs behind it.",
        "vertex",
        unit="ratio",
    ),
    _run("vertex_rows_in", "gauge", "Rows that came into a vertex in the newest epoch.", "vertex", unit="rows"),
    _run("vertex_rows_out", "gauge", "Rows that left a vertex in the newest epoch.", "vertex", unit="rows"),
    _run("vertex_bytes_in", "gauge", "Bytes that came into a vertex in the newest epoch.", "vertex", unit="bytes"),
    _run("vertex_bytes_out", "gauge", "Bytes that left a vertex in the newest epoch.", "vertex", unit="bytes"),
    _run(
        "step_seconds",
        "gauge",
        "What a step took in the newest epoch, sinks with publishing.",
        "step",
        unit="seconds",
    ),
    _run(
        "holder_share",
        "gauge",
        "The share of the newest epoch that the step which holds it back took.",
        "step",
        unit="ratio",
    ),
    _run("source_lag_rows", "gauge", "Rows that wait in a partition of a source.", "source", "partition", unit="rows"),
    _run(
        "source_blocked",
        "gauge",
        "Partitions that stand still although rows wait there: 1.",
        "source",
        "partition",
        "reason",
    ),
    _run(
        "source_retained_bytes",
        "gauge",
        "Bytes that the outside keeps for a source until its rows are published, such as the log behind a slot.",
        "source",
        "partition",
        unit="bytes",
    ),
    _total("source_dropped_rows_total", "Rows that were jumped over and are never read.", "source", "reason"),
    _run(
        "buffer_used_ratio",
        "gauge",
        "Bytes that the newest epoch admitted of a source and that wait fetched ahead of it, of those there is room for.",
        "source",
        unit="ratio",
    ),
    _run(
        "process_cpu_ratio",
        "gauge",
        "Processor time since the epoch before, of what this machine or its limit allows.",
        "process",
        unit="ratio",
        origin=_PROCESSES,
    ),
    _run(
        "process_memory_ratio",
        "gauge",
        "Memory held, of what the run, this machine or its control group allows, whichever is least.",
        "process",
        unit="ratio",
        origin=_PROCESSES,
    ),
    _run("jvm_heap_bytes", "gauge", "What the heap of Spark's JVM holds.", unit="bytes", origin=_JVM),
    _run("jvm_heap_limit_bytes", "gauge", "What the heap of Spark's JVM may hold.", unit="bytes", origin=_JVM),
    _run(
        "rocksdb_memory_bytes",
        "gauge",
        "What RocksDB holds in memory beside the heap, for the state of the run.",
        unit="bytes",
        origin="Spark's progress of the newest epoch it has told of",
    ),
    _total("shuffle_bytes_total", "What passed between subtasks through Spark's shuffle.", unit="bytes"),
    _total("user_counter_total", "What functions of the job counted.", "step", "name", unit=""),
    _run(
        "user_gauge",
        "gauge",
        "The newest value that functions of the job set, by subtask.",
        "step",
        "name",
        "subtask",
        origin=_EPOCHS,
    ),
    _run("user_histogram", "histogram", "Values that functions of the job observed.", "step", "name", origin=_EPOCHS),
)
"""Every one has the label `job_name`; those of a service also `slot`, which tells runs of one job at one time apart."""
