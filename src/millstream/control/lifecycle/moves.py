"""How a run moves from one state to another: compare-and-set on its status and token, with an event that says why."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from millstream.control.lifecycle.states import FINAL, Status, is_legal
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.refusals import StateConflict


class Cause(NamedTuple):
    """Why something happened to a run, and who wanted it."""

    text: str
    actor: str
    details: dict[str, Any] | None = None


def move(
    connection: Connection,
    run: str,
    before: Status,
    after: Status,
    cause: Cause,
    *,
    now: dt.datetime,
    token: int | None = None,
    **values: Any,
) -> bool:
    """Move a run if it is still where the caller believes it is; `False` says that another was first.

    Args:
        connection: the transaction to which the move belongs.
        run: its execution id.
        before: the status the caller saw.
        after: the status it wants.
        cause: stands in the event.
        now: the time of the event.
        token: the token of the caller's claim; without one the caller acts for people, whoever owns the run.
        values: more columns of the run that change with it.
    """
    if not is_legal(before, after):
        msg = f"a run cannot go from {before} to {after}"
        raise StateConflict(msg, code="CTL-013", found=before, hint="look at its state again")
    ends = {"end_time": now} if after in FINAL else {}
    matching = update(execution).where(execution.c.execution_id == run, execution.c.status == before)
    if token is not None:
        matching = matching.where(execution.c.token == token)
    changed = matching.values(status=after, row_version=execution.c.row_version + 1, **ends, **values)
    moved = connection.execute(changed.returning(execution.c.token)).scalar()
    if moved is None:
        return False
    record(connection, run, "moved", cause, now=now, token=moved, before=before, after=after)
    return True


def record(
    connection: Connection,
    run: str,
    kind: str,
    cause: Cause,
    *,
    now: dt.datetime,
    token: int,
    before: Status | None = None,
    after: Status | None = None,
) -> None:
    """Write an event of a run behind those it has; the row of the run is locked by whoever moved it."""
    last = select(func.coalesce(func.max(run_event.c.seq), 0) + 1).where(run_event.c.execution_id == run)
    connection.execute(
        insert(run_event).values(
            execution_id=run,
            seq=last.scalar_subquery(),
            time=now,
            kind=kind,
            from_status=before,
            to_status=after,
            cause=cause.text,
            actor=cause.actor,
            token=token,
            details=cause.details,
        )
    )
