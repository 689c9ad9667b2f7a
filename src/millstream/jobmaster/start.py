"""How a run begins: resume, start afresh, restore a savepoint, or give up state on purpose."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import msgspec

from millstream.checkpoint.head import Head, Origin
from millstream.checkpoint.savepoint import Savepoint, read_savepoint
from millstream.errors import CheckpointRefused
from millstream.plan.start import Start


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


def starting_point(stored: Head | None, job: str, token: int, start: Start) -> StartingPoint:
    """Choose the lineage; nothing is written here."""
    if stored is not None and stored.job != job:
        msg = "the checkpoint belongs to another job"
        raise CheckpointRefused(
            msg, code="CKPT-005", found=stored.job, known=job, hint="run that job, or use another checkpoint directory"
        )
    asked_for = None if start.savepoint is None else read_savepoint(start.savepoint)
    match decide_lineage(stored, start, asked_for):
        case GoOn(head):
            head, is_new = msgspec.structs.replace(head, token=token), False
        case StartNew(origin):
            head, is_new = Head(job=job, lineage=uuid.uuid4().hex[:16], token=token, origin=origin), True
    has_to_load = bool(head.origin.savepoint) and head.epoch is None
    savepoint = read_savepoint(head.origin.savepoint) if has_to_load else None
    return StartingPoint(head=head, savepoint=savepoint, is_new=is_new)


def decide_lineage(stored: Head | None, start: Start, asked_for: Savepoint | None) -> GoOn | StartNew:
    """Whether the lineage of a checkpoint goes on.

    Args:
        stored: the head of the checkpoint, if there is one that can be read.
        start: what the person who starts the job says.
        asked_for: the savepoint that `start` names.
    """
    if asked_for is not None:
        return _restored(stored, start, asked_for)
    if start.ignore_state_once and (stored is None or not stored.origin.ignored):
        ignored = "unreadable" if stored is None else stored.lineage
        return StartNew(Origin(ignored=ignored, newer_output=start.newer_output, replaced=_replaced(stored)))
    return StartNew(Origin()) if stored is None else GoOn(stored)


def _restored(stored: Head | None, start: Start, asked_for: Savepoint) -> GoOn | StartNew:
    """A checkpoint that was restored from this savepoint already is resumed."""
    wanted = (asked_for.id, asked_for.history)
    if stored is not None and (stored.origin.savepoint_id, stored.origin.history) == wanted:
        return GoOn(msgspec.structs.replace(stored, origin=_with_last_word(stored, start)))
    return StartNew(
        Origin(
            savepoint=str(Path(start.savepoint or "").resolve()),
            savepoint_id=asked_for.id,
            history=asked_for.history,
            newer_output=start.newer_output,
            replaced=_replaced(stored),
        )
    )


def _with_last_word(stored: Head, start: Start) -> Origin:
    """A restore that was begun and refused, since output came up meanwhile, may be told what becomes of it."""
    if stored.epoch is not None or start.newer_output == "refuse":
        return stored.origin
    return msgspec.structs.replace(stored.origin, newer_output=start.newer_output)


def _replaced(stored: Head | None) -> list[str]:
    return [] if stored is None else [*stored.origin.replaced, stored.lineage]
