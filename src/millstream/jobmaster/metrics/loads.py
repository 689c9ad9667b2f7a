"""Where the time of the newest epoch went, in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.api.running.result import EpochSummary
from millstream.jobmaster.metrics.watermarks import label

_VERTEX = (
    ("vertex_busy_seconds", "busy", "What the slowest subtask of a vertex took in the newest epoch."),
    ("vertex_idle_seconds", "idle", "How long a vertex waited for what runs before it."),
    ("vertex_blocked_seconds", "blocked", "How long a vertex waited for what runs behind it."),
    ("vertex_rows_in", "rows_in", "Rows that came into a vertex in the newest epoch."),
    ("vertex_rows_out", "rows_out", "Rows that left a vertex in the newest epoch."),
    ("vertex_bytes_in", "bytes_in", "Bytes that came into a vertex in the newest epoch."),
    ("vertex_bytes_out", "bytes_out", "Bytes that left a vertex in the newest epoch."),
)


def load_lines(job: str, newest: EpochSummary) -> Iterator[str]:
    """All samples, each metric behind its help."""
    load = newest.load
    for name, field, text in _VERTEX:
        labelled = {f'vertex="{label(v)}"': float(getattr(each, field)) for v, each in load.vertices.items()}
        yield from _gauge(job, name, text, labelled)
    steps = {f'step="{label(step)}"': took for step, took in load.steps.items()}
    yield from _gauge(job, "step_seconds", "What a step took in the newest epoch, sinks with publishing.", steps)
    if load.holder is not None:
        held = {f'step="{label(load.holder.step)}"': load.holder.share}
        yield from _gauge(
            job, "holder_share", "The share of the newest epoch that the step which holds it back took.", held
        )


def _gauge(job: str, name: str, text: str, samples: dict[str, float]) -> Iterator[str]:
    shown = f"millstream_{name}"
    if samples:
        yield from (f"# HELP {shown} {text}", f"# TYPE {shown} gauge")
        yield from (f'{shown}{{job_name="{job}",{labels}}} {value:.15g}' for labels, value in samples.items())
