"""Decides each epoch before it runs: how far to read, the clock, the watermarks, and whether it is the last.

The decision depends on the plan before it, on what the tasks reported, on the sources and on the clock. It becomes the offset
that Spark logs, so it is taken once; a replayed epoch is not decided again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from millstream.api.running.result import PartitionWatermark
from millstream.contract.source import Advance, SplitEnumerator
from millstream.jobmaster.planner.alignment import paused
from millstream.jobmaster.planner.asking import SourceQueries, SourceReading, Waiting, drained_by, stated_by, waiting_of
from millstream.jobmaster.planner.credits import Credits
from millstream.jobmaster.planner.learned import PlannerState, learn
from millstream.jobmaster.planner.replays import ReplayQueue
from millstream.jobmaster.planner.shares import level_0_tasks
from millstream.jobmaster.planner.time_steps import combinations, event_time_of, time_steps
from millstream.jobmaster.planner.watermarks import (
    PlanningFacts,
    decide_watermarks,
    partition_watermarks,
    watermarks_before,
)
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan, SavepointRequest, combined_name, times_for
from millstream.runtime.messages import RunIdentity, TaskInput, TaskReport

Clock = Callable[[], int]


class Pause:
    """A pause that has begun."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the pause has passed."""
        return time.monotonic() >= self._until


class Planner:
    """Plans the epochs of one run."""

    def __init__(
        self,
        deployment: DeploymentPlan,
        sources: Mapping[str, SplitEnumerator],
        clock: Clock,
        state: PlannerState | None,
    ) -> None:
        self._replays = ReplayQueue(deployment)
        self._deployment, self._sources, self.clock = deployment, sources, clock
        self._time_steps = time_steps(deployment)
        self._event_time_of = event_time_of(deployment)
        self._combinations = combinations(deployment)
        self.state = state or PlannerState(started=clock())
        self._credits = Credits(deployment, self.state)
        self._queries = SourceQueries(sources, self._credits, clock)
        self._decided = time.monotonic()
        self._reports: list[TaskReport] = []
        self._resumed = MIN_TIME if state is None else clock()
        self._stated: dict[str, int] = {}
        self._known: dict[str, Collection[str]] = {}
        self._drained: dict[str, frozenset[str]] = {}
        self.waiting = Waiting()
        self._origin: EpochPlan | None = None
        self._is_draining = False
        self._is_held = False
        self._wanted: SavepointRequest | None = None
        self._pause = Pause(0.0)

    @property
    def at_source(self) -> set[str]:
        """The event-time steps that see the partitions of sources themselves."""
        return {step for step, time_step in self._time_steps.items() if time_step.is_at_source}

    def start_from(self, restored: EpochPlan) -> None:
        """A lineage that continues where a savepoint ended; sources it does not know start at their beginning."""
        self._resumed = self.clock()
        positions = {name: restored.sources.get(name, source.initial()) for name, source in self._sources.items()}
        self._origin = EpochPlan(
            epoch=-1,
            now=restored.now,
            sources=positions,
            watermarks={step: mark for step, mark in restored.watermarks.items() if step in self._time_steps},
            combined={n: m for n, m in restored.combined.items() if n in map(combined_name, self._combinations)},
            finished=[name for name in restored.finished if name in self._sources and not restored.terminal],
            replayed=restored.replayed,
        )

    def initial(self) -> EpochPlan:
        """What stands before the first epoch."""
        if self._origin is not None:
            return self._origin
        positions = {name: source.initial() for name, source in self._sources.items()}
        return EpochPlan(epoch=-1, now=self.state.started, sources=positions, replayed=self._replays.before)

    def drain(self) -> None:
        """Read nothing more; the next epoch is the last."""
        self._is_draining = True

    def hold(self) -> None:
        """Plan nothing more."""
        self._is_held = True

    def export(self, savepoint: SavepointRequest) -> None:
        """The next epoch exports its state, whether or not there are rows; one that ends the run reads nothing new."""
        self._wanted = savepoint

    def pause(self, seconds: float) -> None:
        """An epoch is finished: plan the next one no sooner than that, unless someone waits for it."""
        self._credits.learn(self._reports, time.monotonic() - self._decided)
        self._pause, self._reports = Pause(seconds), []

    def next(self, last: EpochPlan) -> EpochPlan:
        """The next epoch, or `last` itself when nothing is due."""
        began = time.monotonic()
        plan = self._next(last)
        if plan is not last:
            self._decided = began
        return plan

    def _next(self, last: EpochPlan) -> EpochPlan:
        if last.terminal or self._is_held:
            return last
        if self._wanted is not None:
            return self._exporting(last, self._wanted)
        if not self._is_draining and not self._pause.is_over:
            return last
        left_out, readings = self._readings(last)
        self.waiting = waiting_of(readings)
        plan = self._plan(last, readings, left_out)
        if self._is_draining:
            return self._terminal(last, plan.now)
        is_restored = last.epoch == -1 and self._origin is not None
        if plan.reached != last.reached or plan.replays or self._is_due(plan) or is_restored:
            return plan
        if len(plan.finished) == len(self._sources):
            asked = self._replays.next(last.replayed, at_once=True)
            return _replaying(plan, last, asked) if asked else self._terminal(last, plan.now)
        return plan if _is_realigned(plan, last) else last

    def first(self, last: EpochPlan) -> EpochPlan:
        """The next epoch, without rows where nothing is due.

        An engine that runs its first epoch whatever there is to read asks for it like this.
        """
        plan = self.next(last)
        return self._without_rows(last) if plan is last else plan

    def _exporting(self, last: EpochPlan, savepoint: SavepointRequest) -> EpochPlan:
        """An epoch that exports its state."""
        self._wanted, self._is_held = None, savepoint.ends
        if savepoint.ends:
            return self._without_rows(last, savepoint)
        left_out, readings = self._readings(last)
        return msgspec.structs.replace(self._plan(last, readings, left_out), savepoint=savepoint)

    def _without_rows(self, last: EpochPlan, savepoint: SavepointRequest | None = None) -> EpochPlan:
        """An epoch that reads nothing and moves no watermark."""
        return msgspec.structs.replace(
            last,
            epoch=last.epoch + 1,
            now=max(self.clock(), last.now),
            previous=last.watermarks,
            previous_combined=last.combined,
            sources=last.reached,
            jumps={},
            conflated=[],
            dropped={},
            replays={},
            follows=last.digest,
            savepoint=savepoint,
        )

    def _readings(self, last: EpochPlan) -> tuple[list[str], dict[str, SourceReading]]:
        """Which sources wait for others, and how far each is read."""
        facts = self._facts(last, self._now(last, {}))
        left_out = paused(self._time_steps.values(), self.state, facts, self._queries.selective)
        return left_out, {n: self._queries.ask(n, self._position(last, n), left_out) for n in self._sources}

    def _facts(self, last: EpochPlan, now: int) -> PlanningFacts:
        goes_on = any(name not in last.finished for name in self._sources)
        return PlanningFacts(now, last.finished, self._stated, self._known, self._resumed, goes_on, self._drained)

    def _now(self, last: EpochPlan, advances: Mapping[str, Advance]) -> int:
        """The clock of the next epoch: never behind that of the last, unless a script says so."""
        scripted = [advance.now for advance in advances.values() if advance.now is not None]
        return max(scripted) if scripted else max(self.clock(), last.now)

    def _position(self, plan: EpochPlan, source: str) -> Any:
        """Where a plan leaves a source; one the job did not have then stands at its beginning."""
        position = plan.reached.get(source)
        return self._sources[source].initial() if position is None else position

    def _plan(self, last: EpochPlan, readings: Mapping[str, SourceReading], left_out: list[str]) -> EpochPlan:
        advances: dict[str, Advance] = {name: reading.advance for name, reading in readings.items()}
        now = self._now(last, advances)
        self._stated, self._drained = stated_by(advances), drained_by(advances)
        self._known = {name: advance.partitions for name, advance in advances.items()}
        facts, steps = self._facts(last, now), self._time_steps.values()
        before = watermarks_before(steps, facts, last)
        marks = decide_watermarks(steps, self._combinations, self.state, facts, before)
        positions = {n: self._position(last, n) if n in last.finished else a.position for n, a in advances.items()}
        finished = sorted(name for name, advance in advances.items() if advance.finished or name in last.finished)
        plan = EpochPlan(
            epoch=last.epoch + 1,
            now=now,
            sources=positions,
            watermarks=marks.steps,
            previous=before.steps,
            combined=marks.combined,
            previous_combined=before.combined,
            finished=finished,
            paused=left_out,
            dropped={name: dict(advance.dropped) for name, advance in advances.items() if advance.dropped},
            jumps={name: reading.jump for name, reading in readings.items() if reading.jump is not None},
            conflated=sorted(name for name, reading in readings.items() if reading.is_conflated),
            follows=last.digest,
        )
        return _replaying(plan, last, self._replays.next(last.replayed))

    def _terminal(self, last: EpochPlan, now: int) -> EpochPlan:
        return EpochPlan(
            epoch=last.epoch + 1,
            now=now,
            sources=last.reached,
            watermarks=dict.fromkeys(self._time_steps, MAX_TIME),
            previous=last.watermarks,
            previous_combined=last.combined,
            finished=sorted(self._sources),
            replayed=last.replayed,
            terminal=True,
            follows=last.digest,
        )

    def _is_due(self, plan: EpochPlan) -> bool:
        """Whether a timer is due although no row came."""
        if any(due <= plan.now for due in self.state.processing_due.values()):
            return True
        for step, dues in self.state.event_due.items():
            seen = self._event_time_of[step]
            # What waits for the end of time itself, as windows without bounds do, waits for the terminal epoch.
            if seen and min(dues.values()) <= min(times_for(plan, seen).watermark, MAX_TIME - 1):
                return True
        return False

    def absorb(self, plan: EpochPlan, reports: Iterable[TaskReport]) -> None:
        """Learn from the reports of an epoch that ran."""
        self._reports = list(reports)
        learn(self.state, {name: step.operation for name, step in self._time_steps.items()}, plan, self._reports)

    def watermarks(self, plan: EpochPlan, last: EpochPlan) -> tuple[PartitionWatermark, ...]:
        """How far each partition had come when `plan` was decided behind `last`; asked before the plan is absorbed."""
        if plan.terminal:
            return ()
        return partition_watermarks(self._time_steps.values(), self.state, self._facts(last, plan.now), plan.paused)

    def lowest(self, plan: EpochPlan) -> int:
        """The lowest watermark that a keyed step follows; that of an event-time step where none does."""
        followed = [times_for(plan, seen).watermark for seen in self._event_time_of.values() if seen]
        return min(followed or plan.watermarks.values(), default=MIN_TIME)

    def tasks(self, start: EpochPlan, end: EpochPlan, run: RunIdentity) -> list[TaskInput]:
        """The level-0 tasks of an epoch: its splits in order, spread evenly; always at least one task."""
        splits = [
            (name, split)
            for name, source in sorted(self._sources.items())
            if name in end.sources and end.sources[name] != self._position(start, name)
            for split in source.splits(self._position(start, name), end.sources[name])
        ]
        return level_0_tasks([*splits, *self._replays.splits(end)], end, run, self._deployment.plan.parallelism)


def _replaying(plan: EpochPlan, last: EpochPlan, asked: dict[str, str]) -> EpochPlan:
    """The plan, which also serves requests to replay dead letters."""
    return msgspec.structs.replace(plan, replays=asked, replayed={**last.replayed, **asked})


def _is_realigned(plan: EpochPlan, last: EpochPlan) -> bool:
    """Whether other sources wait now, or one has ended behind its last rows: epochs record it, though they read nothing.

    What follows the watermark of a source that has ended is done when a plan says so, and others may be silent for long.
    """
    return plan.paused != last.paused or plan.finished != last.finished
