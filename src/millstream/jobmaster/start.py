"""How a run begins: resume, start afresh, restore a savepoint, or give up state on purpose."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec

from millstream.checkpoint.head import Head, Origin
from millstream.checkpoint.savepoint import Savepoint, read_savepoint
from millstream.errors import CheckpointRefused
from millstream.jobmaster.planner.learned import PlannerState
from millstream.model.time import MIN_TIME
from millstream.plan.epoch import EpochPlan, combined_name, plan_from_json
from millstream.plan.start import Start


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """The lineage a run is in, and the savepoint it continues as long as no epoch of its own is durable."""

    head: Head
    savepoint: Savepoint | None
    is_new: bool


def begin(found: Head | None, job: str, token: int, start: Start) -> Beginning:
    """Choose the lineage; nothing is written here."""
    if found is not None and found.job != job:
        msg = "the checkpoint belongs to another job"
        raise CheckpointRefused(
            msg, code="CKPT-005", found=found.job, known=job, hint="run that job, or use another checkpoint directory"
        )
    origin = _origin(found, start)
    if found is not None and _starts_alike(origin, found.origin):
        head = msgspec.structs.replace(found, token=token, origin=origin)
        restored = read_savepoint(origin.savepoint) if origin.savepoint and head.epoch is None else None
        return Beginning(head=head, savepoint=restored, is_new=False)
    head = Head(job=job, lineage=uuid.uuid4().hex[:16], token=token, origin=origin)
    savepoint = read_savepoint(origin.savepoint) if origin.savepoint else None
    return Beginning(head=head, savepoint=savepoint, is_new=True)


def _origin(found: Head | None, start: Start) -> Origin:
    """Where the lineage starts; the origin of the lineage found means that it goes on."""
    if start.savepoint is not None:
        savepoint = read_savepoint(start.savepoint)
        if found is not None and (found.origin.savepoint_id, found.origin.history) == (savepoint.id, savepoint.history):
            return _with_last_word(found, start)
        return Origin(
            savepoint=str(Path(start.savepoint).resolve()),
            savepoint_id=savepoint.id,
            history=savepoint.history,
            newer_output=start.newer_output,
            replaced=_replaced(found),
        )
    if start.ignore_state_once and not (found is not None and found.origin.ignored):
        ignored = "unreadable" if found is None else found.lineage
        return Origin(ignored=ignored, newer_output=start.newer_output, replaced=_replaced(found))
    return Origin() if found is None else found.origin


def _with_last_word(found: Head, start: Start) -> Origin:
    """A restore that was begun and refused, since output came up meanwhile, may be told what becomes of it."""
    if found.epoch is not None or start.newer_output == "refuse":
        return found.origin
    return msgspec.structs.replace(found.origin, newer_output=start.newer_output)


def _starts_alike(one: Origin, other: Origin) -> bool:
    return msgspec.structs.replace(one, newer_output=other.newer_output) == other


def _replaced(found: Head | None) -> list[str]:
    return [] if found is None else [*found.origin.replaced, found.lineage]


def restored_plan(savepoint: Savepoint, uids: dict[str, str]) -> EpochPlan:
    """The plan a savepoint ended with, under the step ids of the job as it is now."""
    plan = plan_from_json(savepoint.plan)
    names = _names(savepoint.uids, uids)
    watermarks = plan.previous if plan.terminal else plan.watermarks
    combined = plan.previous_combined if plan.terminal else plan.combined
    return msgspec.structs.replace(
        plan,
        sources={names[step]: position for step, position in plan.sources.items() if step in names},
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
