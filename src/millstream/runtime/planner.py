"""Decides each epoch before it runs: how far to read, the clock, the watermarks, and whether it is the last.

The decision depends on the plan before it, on what the tasks reported, on the sources and on the clock. It becomes the offset
that Spark logs, so it is taken once; a replayed epoch is not decided again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from millstream.graph.step import EventTime, Source
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.connector import Advance, Split, SplitEnumerator
from millstream.runtime.epoch import EpochPlan, SavepointRequest
from millstream.runtime.messages import RunIdentity, TaskInput, TaskReport

Clock = Callable[[], int]


class PlannerState(msgspec.Struct, kw_only=True):
    """What the planner learned from the tasks; stands in every manifest."""

    started: int
    partitions: dict[str, dict[str, tuple[int, int]]] = {}
    """Per event-time step and source partition: the newest event time, and the clock when it last had rows."""
    event_due: dict[str, dict[str, int]] = {}
    """Per keyed step and task: when it next has something to do."""
    processing_due: dict[str, int] = {}
    """Per task: when its next processing-time timer is due."""


class Rest:
    """A pause that has begun."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the pause has passed."""
        return time.monotonic() >= self._until


class _TimeStep(msgspec.Struct, frozen=True):
    operation: EventTime
    sources: tuple[str, ...]
    is_at_source: bool


class Planner:
    """Plans the epochs of one run."""

    def __init__(
        self,
        deployment: DeploymentPlan,
        sources: Mapping[str, SplitEnumerator],
        clock: Clock,
        state: PlannerState | None,
    ) -> None:
        self._deployment, self._sources, self._clock = deployment, sources, clock
        self._credit: dict[str, int] = {flow.source: flow.credit for flow in deployment.flow}
        self._time_steps = _time_steps(deployment)
        self._event_time_of = _event_time_of(deployment)
        self.state = state or PlannerState(started=clock())
        self.lag: dict[str, int] = {}
        self._origin: EpochPlan | None = None
        self._is_draining = False
        self._is_held = False
        self._wanted: SavepointRequest | None = None
        self._rested = Rest(0.0)

    @property
    def at_source(self) -> set[str]:
        """The event-time steps that see the partitions of sources themselves."""
        return {step for step, time_step in self._time_steps.items() if time_step.is_at_source}

    def start_from(self, restored: EpochPlan) -> None:
        """A lineage that continues where a savepoint ended; sources it does not know start at their beginning."""
        positions = {name: restored.sources.get(name, source.initial()) for name, source in self._sources.items()}
        self._origin = EpochPlan(
            epoch=-1,
            now=restored.now,
            sources=positions,
            watermarks={step: mark for step, mark in restored.watermarks.items() if step in self._time_steps},
            finished=[name for name in restored.finished if name in self._sources and not restored.terminal],
        )

    def initial(self) -> EpochPlan:
        """What stands before the first epoch."""
        if self._origin is not None:
            return self._origin
        positions = {name: source.initial() for name, source in self._sources.items()}
        return EpochPlan(epoch=-1, now=self.state.started, sources=positions)

    def drain(self) -> None:
        """Read nothing more; the next epoch is the last."""
        self._is_draining = True

    def hold(self) -> None:
        """Plan nothing more."""
        self._is_held = True

    def export(self, savepoint: SavepointRequest) -> None:
        """The next epoch exports its state, whether or not there are rows; one that ends the run reads nothing new."""
        self._wanted = savepoint

    def rest(self, seconds: float) -> None:
        """An epoch is finished: plan the next one no sooner than that, unless someone waits for it."""
        self._rested = Rest(seconds)

    def next(self, last: EpochPlan) -> EpochPlan:
        """The next epoch, or `last` itself when nothing is due."""
        if last.terminal or self._is_held:
            return last
        if self._wanted is not None:
            return self._exporting(last, self._wanted)
        if not self._is_draining and not self._rested.is_over:
            return last
        advances = self._advances(last)
        self.lag = {name: advance.lag for name, advance in advances.items() if advance.lag is not None}
        plan = self._plan(last, advances)
        if self._is_draining:
            return self._terminal(last, plan.now)
        is_restored = last.epoch == -1 and self._origin is not None
        if plan.sources != last.sources or self._is_due(plan) or is_restored:
            return plan
        return self._terminal(last, plan.now) if len(plan.finished) == len(self._sources) else last

    def _exporting(self, last: EpochPlan, savepoint: SavepointRequest) -> EpochPlan:
        """An epoch that exports its state."""
        self._wanted, self._is_held = None, savepoint.ends
        if savepoint.ends:
            now = max(self._clock(), last.now)
            return EpochPlan(
                epoch=last.epoch + 1,
                now=now,
                sources=last.sources,
                watermarks=last.watermarks,
                previous=last.watermarks,
                finished=last.finished,
                follows=last.digest,
                savepoint=savepoint,
            )
        return msgspec.structs.replace(self._plan(last, self._advances(last)), savepoint=savepoint)

    def _advances(self, last: EpochPlan) -> dict[str, Advance]:
        return {
            name: source.advance(self._position(last, name), self._credit[name])
            for name, source in self._sources.items()
        }

    def _position(self, plan: EpochPlan, source: str) -> Any:
        """Where a plan leaves a source; one the job did not have then stands at its beginning."""
        found = plan.sources.get(source)
        return self._sources[source].initial() if found is None else found

    def _plan(self, last: EpochPlan, advances: Mapping[str, Advance]) -> EpochPlan:
        scripted = [advance.now for advance in advances.values() if advance.now is not None]
        now = max(scripted) if scripted else max(self._clock(), last.now)
        positions = {n: self._position(last, n) if n in last.finished else a.position for n, a in advances.items()}
        finished = sorted(name for name, advance in advances.items() if advance.finished or name in last.finished)
        return EpochPlan(
            epoch=last.epoch + 1,
            now=now,
            sources=positions,
            watermarks={step: self._watermark(step, last, advances, now) for step in self._time_steps},
            previous=last.watermarks,
            finished=finished,
            follows=last.digest,
        )

    def _terminal(self, last: EpochPlan, now: int) -> EpochPlan:
        return EpochPlan(
            epoch=last.epoch + 1,
            now=now,
            sources=last.sources,
            watermarks=dict.fromkeys(self._time_steps, MAX_TIME),
            previous=last.watermarks,
            finished=sorted(self._sources),
            terminal=True,
            follows=last.digest,
        )

    def _watermark(self, step: str, last: EpochPlan, advances: Mapping[str, Advance], now: int) -> int:
        """The minimum over partitions that are neither idle nor finished; it never goes back."""
        time_step = self._time_steps[step]
        seen = self.state.partitions.get(step, {})
        if time_step.is_at_source:
            held = [
                mark
                for source in time_step.sources
                if source not in last.finished
                for mark in self._source_marks(source, time_step.operation, seen, advances[source], now)
            ]
        else:
            held = self._partition_marks(seen.values(), time_step.operation, now)
        before = last.watermarks.get(step, MIN_TIME)
        return max(min(held), before) if held else before

    def _source_marks(
        self, source: str, operation: EventTime, seen: Mapping[str, tuple[int, int]], advance: Advance, now: int
    ) -> list[int]:
        if advance.watermark is not None:
            return [advance.watermark]
        mine = [content for partition, content in seen.items() if partition.startswith(f"{source}/")]
        if mine:
            return self._partition_marks(mine, operation, now)
        is_idle = operation.idle_after is not None and now - self.state.started >= operation.idle_after
        return [] if is_idle else [MIN_TIME]

    def _partition_marks(self, seen: Iterable[tuple[int, int]], operation: EventTime, now: int) -> list[int]:
        return [
            newest - operation.max_delay - 1
            for newest, at in seen
            if operation.idle_after is None or now - at < operation.idle_after
        ]

    def _is_due(self, plan: EpochPlan) -> bool:
        """Whether a timer is due although no row came."""
        if any(due <= plan.now for due in self.state.processing_due.values()):
            return True
        for step, dues in self.state.event_due.items():
            marks = [plan.watermarks[time_step] for time_step in self._event_time_of[step]]
            if marks and min(dues.values()) <= min(marks):
                return True
        return False

    def absorb(self, plan: EpochPlan, reports: Iterable[TaskReport]) -> None:
        """Learn from the reports of an epoch that ran."""
        for report in reports:
            task = f"{report.level}/{report.task}"
            for step, partitions in report.newest.items():
                known = self.state.partitions.setdefault(step, {})
                for partition, newest in partitions.items():
                    known[partition] = (max(newest, known.get(partition, (newest, 0))[0]), plan.now)
            for step, due in report.event_due.items():
                self.state.event_due.setdefault(step, {})[task] = due
            if report.level:
                self.state.processing_due[task] = report.processing_due

    def tasks(self, start: EpochPlan, end: EpochPlan, run: RunIdentity) -> list[TaskInput]:
        """The level-0 tasks of an epoch: its splits in order, spread evenly; always at least one task."""
        splits = [
            (name, split)
            for name, source in sorted(self._sources.items())
            if name in end.sources and end.sources[name] != self._position(start, name)
            for split in source.splits(self._position(start, name), end.sources[name])
        ]
        shares = spread(splits, self._deployment.plan.parallelism)
        return [
            TaskInput(
                task=number,
                tasks=len(shares),
                plan=end,
                splits=[(name, split.partition, split.body) for name, split in share],
                run=run,
            )
            for number, share in enumerate(shares)
        ]


def spread(splits: list[tuple[str, Split]], tasks: int) -> list[list[tuple[str, Split]]]:
    """Consecutive splits per task, with about equal rows; order is kept across tasks."""
    weights = [max(1, split.rows) for _, split in splits]
    whole, before = max(1, sum(weights)), 0
    shares: list[list[tuple[str, Split]]] = [[] for _ in range(tasks)]
    for named, weight in zip(splits, weights, strict=True):
        shares[min(tasks - 1, (before + weight // 2) * tasks // whole)].append(named)
        before += weight
    return [share for share in shares if share] or [[]]


def _time_steps(deployment: DeploymentPlan) -> dict[str, _TimeStep]:
    plan = deployment.plan
    sources = _sources_of(deployment)
    return {
        node.id: _TimeStep(node.operation, sources[node.id], planned.level == 0)
        for planned in plan.vertices
        for node in planned.vertex.nodes
        if isinstance(node.operation, EventTime)
    }


def _sources_of(deployment: DeploymentPlan) -> dict[str, tuple[str, ...]]:
    """The sources upstream of each step."""
    found: dict[str, tuple[str, ...]] = {}
    for planned in deployment.plan.vertices:
        for node in planned.vertex.nodes:
            upstream = {name for edge in node.inputs for name in found[edge.step]}
            found[node.id] = (node.id,) if isinstance(node.operation, Source) else tuple(sorted(upstream))
    return found


def _event_time_of(deployment: DeploymentPlan) -> dict[str, tuple[Any, ...]]:
    return {
        planned.vertex.id: planned.vertex.head.event_time
        for planned in deployment.plan.vertices
        if planned.vertex.is_keyed
    }
