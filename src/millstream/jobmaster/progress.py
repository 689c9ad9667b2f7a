"""What a run has done so far: its result, its log and its listener, and how long the epoch in flight takes."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from millstream.api.functions.user_metrics import gathered
from millstream.api.running.result import (
    EpochSummary,
    Listener,
    PartitionWatermark,
    RunResult,
    busy_seconds,
    dropped_rows,
)
from millstream.api.running.run_log import RunLog
from millstream.jobmaster.planner.planner import Planner
from millstream.model.counts import Counts, StepCounts
from millstream.plan.epoch import EpochPlan
from millstream.runtime.messages import TaskReport


class Progress:
    """Takes note of every published epoch and tells who listens."""

    def __init__(
        self,
        result: RunResult,
        planner: Planner,
        *,
        token: int,
        sources: Collection[str],
        sinks: Collection[str],
        log: RunLog,
        listener: Listener | None,
    ) -> None:
        """`sources` and `sinks` are steps: what they take is what a run has read and written."""
        self.result = result
        self._planner, self._token, self._sources, self._sinks = planner, token, sources, sinks
        self._log, self._listener = log, listener
        self._began = self._epoch_began = time.monotonic()

    def begin_epoch(self) -> None:
        """The time of an epoch counts from here."""
        self._epoch_began = time.monotonic()

    @property
    def epoch_seconds(self) -> float:
        """How long the epoch in flight has taken."""
        return time.monotonic() - self._epoch_began

    def published(
        self, plan: EpochPlan, counts: Counts, reports: Sequence[TaskReport], held: tuple[PartitionWatermark, ...]
    ) -> None:
        """An epoch is published; `held` is how far partitions had come when it was decided."""
        now = time.monotonic()
        waiting = self._planner.waiting
        summary = EpochSummary(
            epoch=plan.epoch,
            rows_in=_taken(counts, self._sources),
            rows_out=_taken(counts, self._sinks),
            lag=sum(waiting.lag.values()) if waiting.lag else None,
            watermark=self._planner.lowest(plan),
            seconds=now - self._epoch_began,
            terminal=plan.terminal,
            guarantee=self.result.guarantee,
            token=self._token,
            now=plan.now,
            steps=plan.watermarks,
            watermarks=held,
            lags=waiting.lags,
            blocked=waiting.blocked,
            retained=waiting.retained,
            dropped=dropped_rows([plan.dropped, *(report.lost for report in reports)]),
            failures=self.result.failures,
            counts=counts,
            metrics=gathered(report.metrics for report in reports),
            busy=busy_seconds(report.busy for report in reports),
        )
        self._tell(summary, now)

    def _tell(self, summary: EpochSummary, now: float) -> None:
        self.result.add(summary, now - self._began)
        self._epoch_began = now
        self._log.published(summary)
        if self._listener is not None:
            self._listener(summary)


def _taken(counts: Counts, steps: Collection[str]) -> int:
    return sum(counts.get(step, StepCounts()).rows_in for step in steps)
