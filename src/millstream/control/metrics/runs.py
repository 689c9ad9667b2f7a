"""Figures of a run, from what its driver reports to the node that answers for it."""

from __future__ import annotations

import dataclasses
import logging
import threading

import msgspec

from millstream.contract.driver_protocol import DriverReport
from millstream.inspect.run_facts import told_epoch
from millstream.jobmaster.metrics.figures import figures_of
from millstream.jobmaster.metrics.metric import Figure
from millstream.jobmaster.metrics.totals import Totals
from millstream.model.counts import Counts

_log = logging.getLogger(__name__)


class RunFigures:
    """What one claim of a run has told so far. Reports come in by another thread than the one that reads it.

    A driver that takes the place of another counts from zero, as a process does that Prometheus sees restart.
    """

    def __init__(self, job: str, slot: int) -> None:
        """`slot` of the job: it tells its runs of one time apart, without a series for each run that ever was."""
        self.labels = {"job_name": job, "slot": str(slot)}
        self._lock = threading.Lock()
        self._totals, self._seq = Totals(job=job, guarantee="", mode=""), 0

    def take(self, report: DriverReport) -> None:
        """A report came; one that is told again, as after a connection was lost, counts once."""
        with self._lock:
            if report.seq <= self._seq:
                return
            try:
                self._totals, self._seq = _after(self._totals, report), report.seq
            except (KeyError, ValueError, msgspec.MsgspecError) as problem:
                # Figures inform, they decide nothing: the report counts for everything else.
                _log.warning("a report of %s has no figures that can be read: %s", report.run, problem)

    def counts(self) -> Counts:
        """Rows of each step since the claim, or since this process of the node took the run over."""
        with self._lock:
            return self._totals.counts

    def figures(self, now: float) -> list[Figure]:
        """All figures of the run; none before its first epoch."""
        with self._lock:
            totals = self._totals
        return [] if totals.newest is None else list(figures_of(totals, now=now))


def _after(totals: Totals, report: DriverReport) -> Totals:
    match report.type:
        case "graph":
            return dataclasses.replace(totals, mode=report.body["mode"])
        case "epoch":
            return totals.after(told_epoch(report.body), at=report.at)
        case _:
            return totals
