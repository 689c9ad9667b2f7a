"""How a new lineage takes over: the others are closed for good, and what they published beyond its start is dealt with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.connectors.kafka.transactions.marks import Mark, closure
from millstream.connectors.kafka.transactions.owner import MarkedChange, SinkOwner, fenced
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused
from millstream.model.connector import NewerOutput


def take_over(owner: SinkOwner, context: SinkContext, history: Mapping[str, int], newer: NewerOutput) -> None:
    """Close every other lineage of the job and step.

    1. Show that this owner is not late itself.  2. Look what the others published.
    3. Close them, in a transaction of this lineage: an owner that is replaced meanwhile closes nothing.
    4. Fence them: whoever of them looked at its mark before step 3 is out now, and whoever looks later sees that it is closed.
    5. Look again: one may have published between the steps, or have closed this lineage first.
    """
    # Step 1. Show that this owner is not late itself
    owner.touch()
    # Step 2. Look what the others published
    marks = owner.marks(may_abort=True)
    _settle(marks, context, history, newer)
    others = sorted((marks.keys() | history.keys()) - {context.lineage})
    # Step 3. Close them. A lineage that never came here must not begin to.
    is_open = [lineage for lineage in others if lineage not in marks or not marks[lineage].is_closed]
    closures = tuple(closure(lineage, context.lineage) for lineage in is_open)
    if closures:
        owner.change(lambda mark: MarkedChange(mark=mark.owned(context.token), closures=closures))
    # Step 4. Fence them
    owner.expel(others)
    # Step 5. Look again
    marks = owner.marks(may_abort=True)
    if (own := marks[context.lineage]).is_closed:
        raise fenced(own, context)
    _settle(marks, context, history, newer)


def refuse_newer(marks: Mapping[str, Mark], context: SinkContext, history: Mapping[str, int]) -> None:
    """Raise when other lineages published rows beyond the history."""
    if newer := _newer_lineages(marks, context.lineage, history):
        msg = "the sink holds output beyond the point that this lineage starts from"
        hint = "pass --on-newer-output keep to leave it in the topic; messages cannot be removed from one"
        raise CheckpointRefused(
            msg, code="SINK-003", step=context.step, found=_told(newer), known="refuse, keep", hint=hint
        )


def _settle(marks: Mapping[str, Mark], context: SinkContext, history: Mapping[str, int], newer: NewerOutput) -> None:
    if newer == "refuse":
        refuse_newer(marks, context, history)
    elif newer == "truncate" and (beyond := _newer_lineages(marks, context.lineage, history)):
        msg = "messages cannot be removed from a topic, so newer output cannot be truncated"
        hint = "pass --on-newer-output keep; readers can tell the messages by their offsets"
        raise CheckpointRefused(msg, code="SINK-004", step=context.step, found=_told(beyond), hint=hint)


def _newer_lineages(marks: Mapping[str, Mark], own: str, history: Mapping[str, int]) -> Sequence[Mark]:
    others = [marks[lineage] for lineage in sorted(marks) if lineage != own]
    return [mark for mark in others if mark.last_filled > history.get(mark.lineage, -1)]


def _told(newer: Sequence[Mark]) -> str:
    return ", ".join(f"lineage {mark.lineage} up to epoch {mark.last_filled}" for mark in newer)
