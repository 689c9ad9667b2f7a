"""Where the planner of a run starts: afresh, behind the newest durable epoch, or where a savepoint ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.checkpoint.head import Origin
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import Savepoint
from millstream.contract.source import RerunEnumerator, SplitEnumerator
from millstream.jobmaster.connectors import uids_of
from millstream.jobmaster.planner.learned import PlannerState
from millstream.jobmaster.planner.planner import Clock, Planner
from millstream.model.time import MIN_TIME
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan, combined_name, plan_from_json


@dataclasses.dataclass(frozen=True, slots=True)
class Afresh:
    """Nothing stands before the first epoch."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhereSavepointEnded:
    """No epoch of the lineage is durable yet, so its savepoint still stands before the first one."""

    savepoint: Savepoint


@dataclasses.dataclass(frozen=True, slots=True)
class BehindFirst:
    """Only the first epoch is durable. An engine may replay it, and asks what stood before it."""

    first: EpochManifest


@dataclasses.dataclass(frozen=True, slots=True)
class BehindNewest:
    """Everything follows from the newest durable epoch."""


PlannerOrigin = Afresh | WhereSavepointEnded | BehindFirst | BehindNewest


def planner_origin(savepoint: Savepoint | None, newest: EpochManifest | None) -> PlannerOrigin:
    """Where a planner starts, by the savepoint of its lineage and the newest durable epoch."""
    if newest is not None:
        return BehindFirst(newest) if newest.epoch == 0 else BehindNewest()
    return Afresh() if savepoint is None else WhereSavepointEnded(savepoint)


def open_planner(
    deployment: DeploymentPlan,
    sources: Mapping[str, SplitEnumerator],
    clock: Clock,
    *,
    savepoint: Savepoint | None,
    newest: EpochManifest | None,
    origin: Origin,
) -> Planner:
    """The planner of a run, told what stood before it."""
    uids = uids_of(deployment)
    state = None if newest is None else msgspec.convert(newest.planner, PlannerState)
    planner = Planner(deployment, sources, clock, state)
    match planner_origin(savepoint, newest):
        case WhereSavepointEnded(restored):
            plan = restored_plan(restored, uids)
            if origin.begins_run:
                plan = msgspec.structs.replace(plan, sources=_next_run(plan.sources, sources))
            if origin.begins_run and origin.run.carry == "position":
                plan = EpochPlan(epoch=plan.epoch, now=plan.now, sources=plan.sources, replayed=plan.replayed)
            else:
                planner.state = restored_state(restored, uids, planner.at_source)
            planner.start_from(plan)
        case BehindFirst(first):
            planner.start_from(_before_first(first, {step: uids[step] for step in sources}))
        case Afresh() | BehindNewest():
            pass
    return planner


def _next_run(positions: Mapping[str, Any], sources: Mapping[str, SplitEnumerator]) -> dict[str, Any]:
    """Where the sources go on behind the run before."""
    begun = {step: sources[step] for step in positions}
    return {
        step: source.next_run(positions[step]) if isinstance(source, RerunEnumerator) else positions[step]
        for step, source in begun.items()
    }


def _before_first(first: EpochManifest, uids: Mapping[str, str]) -> EpochPlan:
    """Where the lineage began; `uids` are those of the sources that the job has now."""
    starts = {step: first.sources[uid].start for step, uid in uids.items() if uid in first.sources}
    return EpochPlan(epoch=-1, now=0, sources={step: start for step, start in starts.items() if start is not None})


def restored_plan(savepoint: Savepoint, uids: dict[str, str]) -> EpochPlan:
    """The plan a savepoint ended with, under the step ids of the job as it is now."""
    plan = plan_from_json(savepoint.plan)
    names = _names(savepoint.uids, uids)
    watermarks = plan.previous if plan.terminal else plan.watermarks
    combined = plan.previous_combined if plan.terminal else plan.combined
    return msgspec.structs.replace(
        plan,
        sources={names[step]: position for step, position in plan.reached.items() if step in names},
        jumps={},
        conflated=[],
        dropped={},
        replays={},
        watermarks={names[step]: mark for step, mark in watermarks.items() if step in names and mark > MIN_TIME},
        combined={name: mark for steps, mark in combined.items() if (name := _all_renamed(steps, names))},
        paused=[],
        finished=[] if plan.terminal else [names[step] for step in plan.finished if step in names],
    )


def restored_state(savepoint: Savepoint, uids: dict[str, str], at_source: set[str]) -> PlannerState:
    """What the planner knew, apart from what it knew of single subtasks: they may be others now and report anew.

    Args:
        savepoint: where it was recorded.
        uids: per step id its uid, of the job as it is now.
        at_source: the event-time steps that see the partitions of sources.
    """
    state = msgspec.convert(savepoint.planner, PlannerState)
    names = _names(savepoint.uids, uids)
    partitions = {}
    for step, seen in state.partitions.items():
        if names.get(step) in at_source:
            renamed = {_renamed(partition, names): content for partition, content in seen.items()}
            partitions[names[step]] = {name: content for name, content in renamed.items() if name}
    return PlannerState(
        started=state.started,
        now=state.now,
        partitions=partitions,
        strategies={names[step]: strategy for step, strategy in state.strategies.items() if step in names},
        moved={names[step]: at for step, at in state.moved.items() if step in names},
        since={names[source]: at for source, at in state.since.items() if source in names},
        paces={names[source]: pace for source, pace in state.paces.items() if source in names},
    )


def _renamed(partition: str, names: dict[str, str]) -> str:
    source, _, rest = partition.partition("/")
    return f"{names[source]}/{rest}" if source in names else ""


def _all_renamed(steps: str, names: dict[str, str]) -> str:
    """The name of steps that are seen together; nothing if one of them is gone."""
    mine = [names.get(step, "") for step in steps.split(" ")]
    return combined_name(mine) if all(mine) else ""


def _names(stored: dict[str, str], mine: dict[str, str]) -> dict[str, str]:
    """From the step ids of then to those of now, by uid."""
    by_uid = {uid: step for step, uid in mine.items()}
    return {step: by_uid[uid] for step, uid in stored.items() if uid in by_uid}
