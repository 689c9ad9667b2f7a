"""Figures of runs, from what their drivers report to the node that answers for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from millstream.inspect.run_facts import told_epoch
from millstream.jobmaster.metrics.figures import figures_of
from millstream.jobmaster.metrics.metric import Figure
from millstream.jobmaster.metrics.totals import Totals


class ReportedRun(NamedTuple):
    """Of which run a report is."""

    id: str
    job: str
    slot: int
    """Of the job: tells its runs of one time apart, without a series for each run that ever was."""


class RunBook:
    """What the runs of a node have told so far. Reports come in by other threads than those that read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[ReportedRun, tuple[Totals, int]] = {}

    def epoch(self, run: ReportedRun, seq: int, facts: Mapping[str, Any], *, at: float, mode: str = "") -> None:
        """An epoch was reported; one that is told again, as after a connection was lost, counts once."""
        summary = told_epoch(facts)
        with self._lock:
            totals, newest = self._totals.get(run, (Totals(job=run.job, guarantee="", mode=mode), 0))
            if seq > newest:
                self._totals[run] = totals.after(summary, at=at), seq

    def forget(self, run: ReportedRun) -> None:
        """The node does not answer for a run any more: its figures end with it."""
        with self._lock:
            self._totals.pop(run, None)

    def figures(self, now: float) -> Iterator[tuple[ReportedRun, list[Figure]]]:
        """The figures of every run."""
        with self._lock:
            known = [(run, totals) for run, (totals, _) in self._totals.items()]
        for run, totals in known:
            yield run, list(figures_of(totals, now=now))
