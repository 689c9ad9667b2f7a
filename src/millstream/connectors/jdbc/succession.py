"""How a new lineage takes over: older ones are closed, and what they published beyond its start is dealt with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.connectors.jdbc.database import Cursor, Database
from millstream.connectors.jdbc.fence import CLOSED, raise_fence
from millstream.connectors.jdbc.layout import STAGING, Layout, waiting_table
from millstream.connectors.jdbc.parts import delete_parts
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused
from millstream.model.connector import NewerOutput

NewerEpoch = tuple[str, int, int]
"""Lineage, epoch and rows of output beyond the history."""


def refuse_newer(cursor: Cursor, layout: Layout, owner: SinkContext, history: Mapping[str, int]) -> None:
    """Raise when other lineages published beyond the history."""
    if newer_epochs := _newer_epochs(cursor, layout, owner, history):
        raise _refused(newer_epochs, owner)


def take_over(
    cursor: Cursor,
    database: Database,
    layout: Layout,
    owner: SinkContext,
    history: Mapping[str, int],
    newer: NewerOutput,
) -> None:
    """Close every other lineage of the job and step; refuse, leave or remove their newer output.

    Only for an owner whose own lineage is not closed: a restore that comes late must not close the one that came after.
    """
    raise_fence(cursor, layout, owner)
    _close_others(cursor, layout, owner, history)
    if layout.replaces:
        newer = "keep"
    if newer == "refuse":
        refuse_newer(cursor, layout, owner, history)
    newer_epochs = _newer_epochs(cursor, layout, owner, history)
    if newer_epochs and newer == "truncate" and layout.mode != "outbox":
        raise _cannot_remove(newer_epochs, layout, owner)
    for lineage, epoch, place, part, is_published in _parts_of_others(cursor, layout, owner):
        # What a closed lineage has staged can never be published, unless it waits for the end of a run that goes on.
        is_beyond = epoch > dict(owner.same_run if place.startswith(STAGING) else history).get(lineage, -1)
        if not is_published or (is_beyond and (newer == "truncate" or place.startswith(STAGING))):
            delete_parts(cursor, layout, database.name(waiting_table(cursor, database, layout, place)), [part])
    if newer == "truncate":
        _remove_markers(cursor, layout, owner, newer_epochs)


def _close_others(cursor: Cursor, layout: Layout, owner: SinkContext, history: Mapping[str, int]) -> None:
    mark = layout.mark
    for lineage in sorted(history.keys() - {owner.lineage}):
        # A lineage that never fenced this sink must not begin to.
        cursor.execute(
            f"INSERT INTO {layout.fence} (job, lineage, step, token) VALUES ({layout.marks(4)}) "
            "ON CONFLICT (job, step, lineage) DO NOTHING",
            (owner.job, lineage, owner.step, CLOSED),
        )
    cursor.execute(
        f"UPDATE {layout.fence} SET token = {mark}4 WHERE job = {mark}1 AND lineage <> {mark}2 AND step = {mark}3",
        (owner.job, owner.lineage, owner.step, CLOSED),
    )


def _newer_epochs(
    cursor: Cursor, layout: Layout, owner: SinkContext, history: Mapping[str, int]
) -> Sequence[NewerEpoch]:
    mark = layout.mark
    cursor.execute(
        f"SELECT lineage, epoch, rows FROM {layout.marker} WHERE job = {mark}1 AND lineage <> {mark}2 "
        f"AND step = {mark}3 AND rows > 0 ORDER BY lineage, epoch",
        (owner.job, owner.lineage, owner.step),
    )
    return [(lineage, epoch, rows) for lineage, epoch, rows in cursor.fetchall() if epoch > history.get(lineage, -1)]


def _parts_of_others(cursor: Cursor, layout: Layout, owner: SinkContext) -> Sequence[tuple[str, int, str, int, bool]]:
    mark = layout.mark
    cursor.execute(
        f"SELECT lineage, epoch, place, part, is_published FROM {layout.part} "
        f"WHERE job = {mark}1 AND lineage <> {mark}2 AND step = {mark}3",
        (owner.job, owner.lineage, owner.step),
    )
    return list(cursor.fetchall())


def _remove_markers(cursor: Cursor, layout: Layout, owner: SinkContext, newer_epochs: Sequence[NewerEpoch]) -> None:
    for lineage, epoch, _ in newer_epochs:
        cursor.execute(
            f"DELETE FROM {layout.marker} WHERE {layout.same_sink()} AND epoch = {layout.mark}4",
            (owner.job, lineage, owner.step, epoch),
        )


def _refused(newer_epochs: Sequence[NewerEpoch], owner: SinkContext) -> CheckpointRefused:
    msg = "the sink holds output beyond the point that this lineage starts from"
    known = "refuse, keep, truncate"
    hint = "pass --on-newer-output keep to leave them in place, or truncate to remove them, which needs mode='outbox'"
    return CheckpointRefused(
        msg, code="SINK-003", step=owner.step, found=_counted(newer_epochs), known=known, hint=hint
    )


def _cannot_remove(newer_epochs: Sequence[NewerEpoch], layout: Layout, owner: SinkContext) -> CheckpointRefused:
    msg = f"rows of table {layout.table!r} do not bear their epoch, so newer output cannot be removed"
    hint = (
        f"pass --on-newer-output keep and remove them yourself; mode='outbox' instead of {layout.mode!r} can truncate"
    )
    return CheckpointRefused(msg, code="SINK-004", step=owner.step, found=_counted(newer_epochs), hint=hint)


def _counted(newer_epochs: Sequence[NewerEpoch]) -> str:
    rows = sum(each[2] for each in newer_epochs)
    return f"{len(newer_epochs)} epochs with {rows} rows"
