"""Figures of a run in the text format that Prometheus reads, and a file that holds the newest of them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Literal

from millstream.api.functions.user_metrics import UserMetrics, gathered
from millstream.api.running.result import EpochSummary, RunResult, dropped_rows
from millstream.jobmaster.metrics.loads import load_lines
from millstream.jobmaster.metrics.sources import Dropped, source_lines
from millstream.jobmaster.metrics.user_metrics import user_lines
from millstream.jobmaster.metrics.watermarks import label, watermark_lines

_Kind = Literal["counter", "gauge"]
_Sample = tuple[str, _Kind, str, float | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a run has done so far, and its newest epoch."""

    job: str
    guarantee: str
    mode: str
    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    failures: int = 0
    newest: EpochSummary | None = None
    metrics: UserMetrics = dataclasses.field(default_factory=dict)
    dropped: Dropped = dataclasses.field(default_factory=dict)

    def after(self, summary: EpochSummary) -> Totals:
        """The totals with one more epoch."""
        return dataclasses.replace(
            self,
            guarantee=summary.guarantee,
            epochs=self.epochs + 1,
            rows_in=self.rows_in + summary.rows_in,
            rows_out=self.rows_out + summary.rows_out,
            failures=summary.failures,
            newest=summary,
            metrics=gathered([self.metrics, summary.metrics]),
            dropped=dropped_rows([self.dropped, summary.dropped]),
        )


def totals_of(result: RunResult, newest: EpochSummary | None = None) -> Totals:
    """The totals of a run that has ended."""
    return Totals(
        job=result.job,
        guarantee=result.guarantee,
        mode=result.mode,
        epochs=result.epochs,
        rows_in=result.rows_in,
        rows_out=result.rows_out,
        failures=result.failures,
        newest=newest,
        metrics=result.metrics,
        dropped=result.dropped,
    )


def prometheus(totals: Totals) -> str:
    """All figures as text; what a run does not know yet is left out."""
    job = label(totals.job)
    lines = [
        "# HELP millstream_guarantee The guarantee in force.",
        "# TYPE millstream_guarantee gauge",
        f'millstream_guarantee{{job_name="{job}",guarantee="{label(totals.guarantee)}"}} 1',
        "# HELP millstream_mode The mode of the job.",
        "# TYPE millstream_mode gauge",
        f'millstream_mode{{job_name="{job}",mode="{label(totals.mode)}"}} 1',
    ]
    for name, kind, text, value in _samples(totals):
        if value is not None:
            shown = f"millstream_{name}"
            lines += [f"# HELP {shown} {text}", f"# TYPE {shown} {kind}", f'{shown}{{job_name="{job}"}} {value:.15g}']
    if totals.newest is not None:
        lines += watermark_lines(job, totals.newest)
        lines += load_lines(job, totals.newest)
    lines += source_lines(job, totals.newest, totals.dropped)
    lines += user_lines(job, totals.metrics)
    return "\n".join(lines) + "\n"


def _samples(totals: Totals) -> list[_Sample]:
    newest = totals.newest
    samples: list[_Sample] = [
        ("epochs_total", "counter", "Epochs published by this run.", totals.epochs),
        ("rows_in_total", "counter", "Rows read by this run.", totals.rows_in),
        ("rows_out_total", "counter", "Rows that reached a sink in this run.", totals.rows_out),
        (
            "failures_total",
            "counter",
            "Failures of this run: those it got over, and the one that ended it.",
            totals.failures,
        ),
    ]
    if newest is not None:
        samples += [
            ("epoch", "gauge", "Newest published epoch.", newest.epoch),
            ("epoch_seconds", "gauge", "How long the newest epoch took.", newest.seconds),
            ("lag_rows", "gauge", "Rows that wait at the sources, where they can tell.", newest.lag),
            ("fencing_token", "gauge", "Token of the owner of the checkpoint.", newest.token),
        ]
    return samples


class MetricsFile:
    """Rewrites a file after every epoch; whoever reads it sees one whole text."""

    def __init__(self, path: Path, *, job: str, guarantee: str, mode: str) -> None:
        self._path = path
        self._totals = Totals(job=job, guarantee=guarantee, mode=mode)
        self._write()

    def epoch(self, summary: EpochSummary) -> None:
        """Note an epoch."""
        self._totals = self._totals.after(summary)
        self._write()

    def result(self, result: RunResult) -> None:
        """Note the end of the run."""
        self._totals = totals_of(result, self._totals.newest)
        self._write()

    def failed(self, failures: int) -> None:
        """Note that the run has failed, for the last time."""
        self._totals = dataclasses.replace(self._totals, failures=failures)
        self._write()

    def _write(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(prometheus(self._totals))
        beside.replace(self._path)
