"""The user's own metrics in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millstream.api.functions.user_metrics import StepMetrics
from millstream.jobmaster.metrics.watermarks import label


def user_lines(job: str, metrics: Mapping[str, StepMetrics]) -> Iterator[str]:
    """The samples in the text format that Prometheus reads; names of the user's are labels, so that none can clash."""
    kinds = [
        ("user_counter_total", "counter", "What functions of the job counted.", _counters),
        ("user_gauge", "gauge", "The newest value that functions of the job set, by subtask.", _gauges),
        ("user_histogram", "histogram", "Values that functions of the job observed.", _histograms),
    ]
    for name, kind, text, samples in kinds:
        shown = f"millstream_{name}"
        lines = [
            line
            for step, step_metrics in metrics.items()
            for line in samples(shown, f'job_name="{job}",step="{label(step)}"', step_metrics)
        ]
        if lines:
            yield from (f"# HELP {shown} {text}", f"# TYPE {shown} {kind}", *lines)


def _counters(shown: str, labels: str, step_metrics: StepMetrics) -> Iterator[str]:
    for name, amount in step_metrics.counters.items():
        yield f'{shown}{{{labels},name="{label(name)}"}} {amount:.15g}'


def _gauges(shown: str, labels: str, step_metrics: StepMetrics) -> Iterator[str]:
    for name, values in step_metrics.gauges.items():
        for subtask, value in sorted(values.items()):
            yield f'{shown}{{{labels},name="{label(name)}",subtask="{subtask}"}} {value:.15g}'


def _histograms(shown: str, labels: str, step_metrics: StepMetrics) -> Iterator[str]:
    for name, spread in step_metrics.histograms.items():
        named, below = f'{labels},name="{label(name)}"', 0
        for bound, count in zip((*spread.bounds, float("inf")), spread.counts, strict=True):
            below += count
            shown_bound = "+Inf" if bound == float("inf") else f"{bound:.15g}"
            yield f'{shown}_bucket{{{named},le="{shown_bound}"}} {below}'
        yield f"{shown}_sum{{{named}}} {spread.sum:.15g}"
        yield f"{shown}_count{{{named}}} {spread.count}"
