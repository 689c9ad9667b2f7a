"""What a run has done so far: its result, its log and its listener, and how long the epoch in flight takes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from millstream.api.functions.user_metrics import gathered
from millstream.api.running.control import RunControl
from millstream.api.running.result import (
    EpochSummary,
    Listener,
    PartitionWatermark,
    RunResult,
    busy_seconds,
    dropped_rows,
)
from millstream.api.running.subtasks import SubtaskState
from millstream.checkpoint.manifest import StateFileRecord
from millstream.jobmaster.engine_side import EngineSide
from millstream.jobmaster.latency import latencies
from millstream.jobmaster.loads import epoch_size, load_of, measures_of, shuffled_bytes
from millstream.jobmaster.planner.credits import used_buffers
from millstream.jobmaster.planner.planner import Planner
from millstream.jobmaster.processes import ProcessWatch
from millstream.model.counts import Counts, StepCounts
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan
from millstream.runtime.messages import TaskReport


class PublishedEpoch(NamedTuple):
    """An epoch as it is known when it is published."""

    plan: EpochPlan
    counts: Counts
    reports: Sequence[TaskReport]
    held: tuple[PartitionWatermark, ...]
    """How far partitions had come when it was decided."""
    segments: Sequence[StateFileRecord]
    """The files in which its state is stored, where the engine keeps such."""
    sinks: Mapping[str, float]
    """Seconds that each sink took to prepare and publish it."""
    phases: Mapping[str, float]
    """Seconds of its phases."""


class Progress:
    """Takes note of every published epoch and tells who listens."""

    def __init__(
        self,
        result: RunResult,
        planner: Planner,
        deployment: DeploymentPlan,
        side: EngineSide,
        *,
        token: int,
        sources: Collection[str],
        sinks: Collection[str],
        control: RunControl,
        listener: Listener | None,
    ) -> None:
        """`sources` and `sinks` are steps: what they take is what a run has read and written."""
        self.result = result
        self._planner, self._deployment, self._token = planner, deployment, token
        self._sources, self._sinks = sources, sinks
        self._side, self._processes = side, ProcessWatch(limit=control.memory_limit)
        self._log, self._subtasks, self._listener = control.log, control.subtasks, listener
        self._began = self._epoch_began = time.monotonic()

    def begin_epoch(self, epoch: int) -> None:
        """The time of an epoch counts from here. Level 0 has as many subtasks as turn up."""
        self._epoch_began = time.monotonic()
        plan = self._deployment.plan
        self._subtasks.begin(epoch, [0, *[plan.parallelism] * plan.depth])

    def reported(self, reports: Sequence[TaskReport]) -> None:
        """All tasks of an epoch have done their work."""
        for report in reports:
            seconds = sum(report.busy.values())
            self._subtasks.note(report.level, report.task, report.attempt, SubtaskState.FINISHED, seconds=seconds)
        self._subtasks.measure(measures_of(self._deployment.plan, reports))

    @property
    def epoch_seconds(self) -> float:
        """How long the epoch in flight has taken."""
        return time.monotonic() - self._epoch_began

    def published(self, done: PublishedEpoch) -> None:
        """An epoch is published."""
        plan, counts, waiting, seconds = done.plan, done.counts, self._planner.waiting, self.epoch_seconds
        summary = EpochSummary(
            epoch=plan.epoch,
            rows_in=_taken(counts, self._sources),
            rows_out=_taken(counts, self._sinks),
            lag=sum(waiting.lag.values()) if waiting.lag else None,
            watermark=self._planner.lowest(plan),
            seconds=seconds,
            terminal=plan.terminal,
            guarantee=self.result.guarantee,
            token=self._token,
            now=plan.now,
            steps=plan.watermarks,
            watermarks=done.held,
            lags=waiting.lags,
            blocked=waiting.blocked,
            retained=waiting.retained,
            dropped=dropped_rows([plan.dropped, *(report.lost for report in done.reports)]),
            failures=self.result.failures,
            counts=counts,
            metrics=gathered(report.metrics for report in done.reports),
            busy=busy_seconds(report.busy for report in done.reports),
        )
        self._tell(self._measured(summary, done))

    def _measured(self, summary: EpochSummary, done: PublishedEpoch) -> EpochSummary:
        """The summary with what the epoch took, and of what."""
        deployment, reports, counts = self._deployment, done.reports, done.counts
        return dataclasses.replace(
            summary,
            load=load_of(deployment.plan, reports, counts, done.sinks, summary.seconds),
            phases=done.phases,
            latency=latencies(deployment, done.plan, reports, counts, published=self._planner.clock()),
            buffers=used_buffers(deployment, reports, self._planner.waiting.ahead),
            processes=self._processes.loads(),
            size=epoch_size(reports, done.segments),
            shuffled=shuffled_bytes(reports) if self._side.shuffles else None,
            jvm=self._side.jvm(),
        )

    def _tell(self, summary: EpochSummary) -> None:
        now = time.monotonic()
        self.result.add(summary, now - self._began)
        self._epoch_began = now
        self._log.published(summary)
        if self._listener is not None:
            self._listener(summary)


def _taken(counts: Counts, steps: Collection[str]) -> int:
    return sum(counts.get(step, StepCounts()).rows_in for step in steps)
