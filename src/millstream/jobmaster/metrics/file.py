"""A file that holds the newest figures of a run, in the text format that Prometheus reads."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

from millstream.api.running.result import EpochSummary, RunResult
from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.figures import figures_of
from millstream.jobmaster.metrics.metric import text_of
from millstream.jobmaster.metrics.totals import Totals


def prometheus(totals: Totals, *, now: float) -> str:
    """All figures of a run as text; what it does not know yet is left out."""
    return text_of(RUN_METRICS, figures_of(totals, now=now), {"job_name": totals.job})


class MetricsFile:
    """Rewrites a file after every epoch; whoever reads it sees one whole text."""

    def __init__(
        self, path: Path, *, job: str, guarantee: str, mode: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._path, self._clock = path, clock
        self._totals = Totals(job=job, guarantee=guarantee, mode=mode)
        self._write()

    def epoch(self, summary: EpochSummary) -> None:
        """Note an epoch."""
        self._totals = self._totals.after(summary, at=self._clock())
        self._write()

    def result(self, result: RunResult) -> None:
        """Note the end of the run."""
        self._totals = self._totals.ended(result)
        self._write()

    def failed(self, failures: int) -> None:
        """Note that the run has failed, for the last time."""
        self._totals = dataclasses.replace(self._totals, failures=failures)
        self._write()

    def _write(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(prometheus(self._totals, now=self._clock()))
        beside.replace(self._path)
