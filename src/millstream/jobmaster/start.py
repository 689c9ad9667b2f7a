"""How a run begins: resume, start afresh, follow a complete one, restore a savepoint, or give up state on purpose."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from typing import Any

import msgspec

from millstream.checkpoint.head import Head, Origin
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.savepoint import Savepoint, read_savepoint
from millstream.errors import CheckpointRefused
from millstream.plan.start import Start

REMEMBERED = 1000
"""Lineages of earlier runs that a checkpoint remembers."""


class StartingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The lineage a run is in, and the savepoint it continues as long as no epoch of its own is durable."""

    head: Head
    savepoint: Savepoint | None
    is_new: bool

    @property
    def refuses_newer_output(self) -> bool:
        """Whether sinks that show more than the lineage starts from forbid to begin it."""
        origin = self.head.origin
        return self.is_new and origin.starts_from_earlier and origin.newer_output == "refuse"

    @property
    def closes_earlier(self) -> bool:
        """Whether the earlier lineages are yet to be closed in every sink."""
        return self.head.epoch is None and self.head.origin.starts_from_earlier


@dataclasses.dataclass(frozen=True, slots=True)
class GoOn:
    """The lineage that is there goes on; its head says from where."""

    head: Head


@dataclasses.dataclass(frozen=True, slots=True)
class StartNew:
    """A new lineage begins."""

    origin: Origin


def starting_point(stored: Head | None, job: str, token: int, start: Start, asked: Asked) -> StartingPoint:
    """Choose the lineage; nothing is written here."""
    if stored is not None and stored.job != job:
        msg = "the checkpoint belongs to another job"
        raise CheckpointRefused(
            msg, code="CKPT-005", found=stored.job, known=job, hint="run that job, or use another checkpoint directory"
        )
    asked_for = None if start.savepoint is None else read_savepoint(start.savepoint)
    match decide_lineage(stored, start, asked_for, asked):
        case GoOn(head):
            head, is_new = msgspec.structs.replace(head, token=token), False
        case StartNew(origin):
            head, is_new = Head(job=job, lineage=uuid.uuid4().hex[:16], token=token, origin=origin), True
    has_to_load = bool(head.origin.savepoint) and head.epoch is None
    savepoint = read_savepoint(head.origin.savepoint) if has_to_load else None
    return StartingPoint(head=head, savepoint=savepoint, is_new=is_new)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a start knows beside the words of the person: what the run is given, and what it may begin behind."""

    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    follows: bool = False
    """The last run is complete and published, and another one is to begin behind it."""
    carried: str = ""
    """Where that finds what it takes over; empty when that is nothing."""


def decide_lineage(
    stored: Head | None, start: Start, asked_for: Savepoint | None, asked: Asked | None = None
) -> GoOn | StartNew:
    """Whether the lineage of a checkpoint goes on.

    Args:
        stored: the head of the checkpoint, if there is one that can be read.
        start: what the person who starts the job says.
        asked_for: the savepoint that `start` names.
        asked: what else is known of the start.
    """
    asked = asked or Asked()
    if asked_for is not None and not _is_restored(stored, asked_for):
        return _restored(stored, start, asked_for, asked)
    if asked_for is None and start.ignore_state_once and (stored is None or not stored.origin.ignored):
        ignored = "unreadable" if stored is None else stored.lineage
        origin = Origin(ignored=ignored, newer_output=start.newer_output, replaced=_replaced(stored))
        return StartNew(msgspec.structs.replace(origin, run=_first(start, asked)))
    if stored is None:
        return StartNew(Origin(run=_first(start, asked)))
    if asked.follows:
        return StartNew(_following(stored, start, asked))
    return GoOn(msgspec.structs.replace(stored, origin=_with_last_word(stored, start)) if asked_for else stored)


def _first(start: Start, asked: Asked) -> RunRecord:
    return RunRecord(id=start.run, params=asked.params)


def _following(stored: Head, start: Start, asked: Asked) -> Origin:
    """A run of its own: everything that earlier ones published counts, and it closes nobody."""
    assert stored.epoch is not None, "a run that is complete has a last epoch"
    origin = stored.origin
    history = [*origin.history, (stored.lineage, stored.epoch)][-REMEMBERED:]
    return Origin(
        savepoint=asked.carried,
        savepoint_id=origin.savepoint_id,
        history=history,
        ignored=origin.ignored,
        replaced=origin.replaced,
        begins_run=True,
        run=RunRecord(
            number=origin.run.number + 1,
            id=start.run,
            carry=start.carry or "",
            params=asked.params,
            since=len(history),
        ),
    )


def _is_restored(stored: Head | None, asked_for: Savepoint) -> bool:
    """Whether the checkpoint began with that savepoint, in this run or an earlier one."""
    if stored is None or stored.origin.savepoint_id != asked_for.id:
        return False
    return stored.origin.history[: len(asked_for.history)] == asked_for.history


def _restored(stored: Head | None, start: Start, asked_for: Savepoint, asked: Asked) -> StartNew:
    """The run of the savepoint goes on; behind one that was complete, another begins."""
    run = msgspec.structs.replace(asked_for.run, params=asked.params)
    if asked_for.plan.get("terminal"):
        run = RunRecord(
            number=run.number + 1, id=start.run, carry="state", params=asked.params, since=len(asked_for.history)
        )
    return StartNew(
        Origin(
            savepoint=str(Path(start.savepoint or "").resolve()),
            savepoint_id=asked_for.id,
            history=asked_for.history,
            newer_output=start.newer_output,
            replaced=_replaced(stored),
            run=run,
        )
    )


def _with_last_word(stored: Head, start: Start) -> Origin:
    """A restore that was begun and refused, since output came up meanwhile, may be told what becomes of it."""
    if stored.epoch is not None or start.newer_output == "refuse":
        return stored.origin
    return msgspec.structs.replace(stored.origin, newer_output=start.newer_output)


def _replaced(stored: Head | None) -> list[str]:
    return [] if stored is None else [*stored.origin.replaced, stored.lineage]
