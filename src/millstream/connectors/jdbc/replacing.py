"""Results that take the place of the one before: rows wait until their run ends, then the table gets them in one transaction.

The rows of the table are deleted and those of the run inserted, so that indexes, rights, views and defaults stay as they are,
and a reader sees what was there or what is there now. A part that waits for the end of its run counts as published.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.jdbc.database import Cursor, Database
from millstream.connectors.jdbc.layout import OURS, STAGING, Layout, waiting_table
from millstream.connectors.jdbc.merge import LAST_FIRST, merge_statements
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused

Lineages = Sequence[tuple[str, int]]
"""Lineages of a run in their order, each with its last epoch that counts."""


def check_run(cursor: Cursor, layout: Layout, owner: SinkContext, before: int) -> None:
    """Refuse to go on with a run whose first part is gone, or was written in another way; `before` is its last epoch so far."""
    for lineage, last in (*owner.same_run, (owner.lineage, before)):
        staged = _staged_rows(cursor, layout, owner, lineage, last)
        if not layout.replaces and staged:
            raise _incomplete(owner, lineage, f"{staged} rows that wait for the end of the run", "none")
        if layout.replaces and staged < (marked := _marked_rows(cursor, layout, owner, lineage, last)):
            raise _incomplete(owner, lineage, f"{staged} rows", f"{marked} rows")


def show_result(cursor: Cursor, database: Database, layout: Layout, owner: SinkContext, epoch: int) -> None:
    """Put the rows of a run, which ends with this epoch, in the place of all rows of the table."""
    check_run(cursor, layout, owner, epoch)
    database.lock_table(cursor, layout.table)
    cursor.execute(f"DELETE FROM {layout.target}")
    failpoint("table_emptied")
    for lineage, last in (*owner.same_run, (owner.lineage, epoch)):
        for place in _places(cursor, layout, owner, lineage, last):
            _move(cursor, database, layout, (owner.job, lineage, owner.step, last, place))


def _move(cursor: Cursor, database: Database, layout: Layout, parts: tuple[str, str, str, int, str]) -> None:
    """Move the waiting rows of one lineage in one staging table; those of other columns lie in another one."""
    place = waiting_table(cursor, database, layout, parts[-1])
    columns = database.columns(cursor, place) or {}
    op = layout.op if layout.op in columns else None
    names = tuple(name for name in columns if name not in (*OURS, op))
    from_place = dataclasses.replace(layout, place_table=place, place=database.name(place), names=names, op=op)
    rows, which = f"{from_place.place} s JOIN {layout.part} p ON p.part = s.ms_part", f"WHERE {_of_run(layout)}"
    which += f" AND p.place = {layout.mark}5"
    if layout.keys:
        for statement in merge_statements(from_place, rows, f"p.epoch DESC, {LAST_FIRST}", which):
            cursor.execute(statement, parts)
    else:
        cursor.execute(
            f"INSERT INTO {layout.target} ({from_place.columns}) SELECT {from_place.columns} FROM {rows} {which}", parts
        )
    moved = f"SELECT p.part FROM {layout.part} p {which}"
    cursor.execute(f"DELETE FROM {from_place.place} WHERE ms_part IN ({moved})", parts)
    cursor.execute(f"DELETE FROM {layout.part} WHERE part IN ({moved})", parts)


def _of_run(layout: Layout) -> str:
    """The parts of a lineage that wait for the end of the run, bound to four values."""
    mark = layout.mark
    sink = f"p.job = {mark}1 AND p.lineage = {mark}2 AND p.step = {mark}3 AND p.epoch <= {mark}4"
    return f"{sink} AND p.is_published AND p.place LIKE '{STAGING}%'"


def _places(cursor: Cursor, layout: Layout, owner: SinkContext, lineage: str, last: int) -> list[str]:
    cursor.execute(
        f"SELECT p.place FROM {layout.part} p WHERE {_of_run(layout)} GROUP BY p.place ORDER BY min(p.epoch)",
        (owner.job, lineage, owner.step, last),
    )
    return [place for (place,) in cursor.fetchall()]


def _staged_rows(cursor: Cursor, layout: Layout, owner: SinkContext, lineage: str, last: int) -> int:
    cursor.execute(
        f"SELECT coalesce(sum(p.rows), 0) FROM {layout.part} p WHERE {_of_run(layout)}",
        (owner.job, lineage, owner.step, last),
    )
    return int(cursor.fetchone()[0])


def _marked_rows(cursor: Cursor, layout: Layout, owner: SinkContext, lineage: str, last: int) -> int:
    cursor.execute(
        f"SELECT coalesce(sum(rows), 0) FROM {layout.marker} WHERE {layout.same_sink()} AND epoch <= {layout.mark}4",
        (owner.job, lineage, owner.step, last),
    )
    return int(cursor.fetchone()[0])


def _incomplete(owner: SinkContext, lineage: str, found: str, known: str) -> CheckpointRefused:
    msg = f"the sink does not hold what lineage {lineage!r} wrote of this run, so its result cannot be shown as a whole"
    hint = "run the job anew: --carry nothing, or --ignore-state-once; or write as the run did when it began"
    return CheckpointRefused(msg, code="SINK-006", step=owner.step, found=found, known=known, hint=hint)
