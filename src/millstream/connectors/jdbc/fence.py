"""The fence: one row for each (job, lineage, step) with the highest token that was seen."""

from __future__ import annotations

from millstream.connectors.jdbc.database import Cursor, Database
from millstream.connectors.jdbc.layout import Layout
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import CheckpointRefused, Fenced

CLOSED = 2**62
"""The token of a lineage that another one has succeeded."""


def raise_fence(cursor: Cursor, layout: Layout, owner: SinkContext | SinkTask) -> None:
    """Refuse every lower token from now on; the row is created when it is missing."""
    cursor.execute(
        f"INSERT INTO {layout.fence} (job, lineage, step, token) VALUES ({layout.marks(4)}) "
        "ON CONFLICT (job, step, lineage) DO UPDATE SET token = excluded.token "
        "WHERE millstream_fence.token <= excluded.token",
        (owner.job, owner.lineage, owner.step, owner.token),
    )
    if cursor.rowcount == 0:
        raise fenced(owner, _stored(cursor, layout, owner))


def check_fence(cursor: Cursor, layout: Layout, owner: SinkContext) -> None:
    """Take the row for this transaction if no higher token was seen."""
    mark = layout.mark
    cursor.execute(
        f"UPDATE {layout.fence} SET token = {mark}4 WHERE {layout.same_sink()} AND token <= {mark}4",
        (owner.job, owner.lineage, owner.step, owner.token),
    )
    if cursor.rowcount:
        return
    stored = _stored(cursor, layout, owner)
    if stored is None:
        msg = "the fence row of this sink is missing; nothing shows whether another owner took over"
        hint = "start the job again, which creates it; never delete rows of millstream_fence"
        raise CheckpointRefused(msg, code="SINK-005", step=owner.step, hint=hint)
    raise fenced(owner, stored)


def hold_fence(cursor: Cursor, database: Database, layout: Layout, owner: SinkTask) -> None:
    """Check the token and keep the fence as it is until the end of the transaction, side by side with other tasks."""
    cursor.execute(
        f"SELECT token FROM {layout.fence} WHERE {layout.same_sink()} {database.share_fence()}",
        (owner.job, owner.lineage, owner.step),
    )
    row = cursor.fetchone()
    if row is None or row[0] < owner.token:
        raise_fence(cursor, layout, owner)
    elif row[0] > owner.token:
        raise fenced(owner, row[0])


def _stored(cursor: Cursor, layout: Layout, owner: SinkContext | SinkTask) -> int | None:
    cursor.execute(
        f"SELECT token FROM {layout.fence} WHERE {layout.same_sink()}", (owner.job, owner.lineage, owner.step)
    )
    row = cursor.fetchone()
    return None if row is None else int(row[0])


def fenced(owner: SinkContext | SinkTask, stored: int | None) -> Fenced:
    """The error of an owner that another one has replaced."""
    msg = "another owner took over this sink; nothing more is published"
    known = "a lineage that was succeeded by another" if stored == CLOSED else f"token {stored}"
    hint = "let the newer run go on; this one ends"
    return Fenced(msg, step=owner.step, found=f"token {owner.token}", known=known, hint=hint)
