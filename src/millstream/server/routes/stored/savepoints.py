"""Savepoints: what there is, and disposing of one. What is in them is read in `savepoint_checks.py`."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel
from sqlalchemy import Row, Select, select, update

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of
from millstream.control.dispatcher.needed import refuse_needed
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution, savepoint
from millstream.control.operations import open_operation
from millstream.control.refusals import StateConflict, UnknownName
from millstream.server.asking import Asks, guarded
from millstream.server.idempotency import ActAnswer, once
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.shapes import OperationOpened

router = APIRouter(tags=["savepoints"])
_NEWEST_FIRST = Keyset(savepoint.c.id, downwards=True)
SavepointId = Annotated[int, Path(ge=1, le=2**62)]


class SavepointShown(BaseModel):
    """A savepoint, and where it is."""

    id: int
    job: str
    job_version: int | None
    """Of the run it was taken of."""
    run: str | None
    trigger_id: str
    epoch: int | None
    lineage: str | None
    fingerprint: str | None
    format: str
    path: str
    size: int | None
    status: str
    create_time: dt.datetime
    complete_time: dt.datetime | None
    age: float
    """Seconds since it was taken."""


@router.get("/savepoints", **guarded("viewer"), summary="List savepoints")
def list_savepoints(
    asking: Asks,
    *,
    job: Annotated[str | None, Query(max_length=128, description="Those of one job.")] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> Page[SavepointShown]:
    """Newest first."""
    with asking.reading() as act:
        found = _all() if job is None else _all().where(savepoint.c.job_id == job_of(act, job).id)
        shown = partial(_shown, act.now)
        return _NEWEST_FIRST.page(act, asking, found, shown, limit=limit, cursor=cursor, scope=(job,))


@router.get("/savepoints/{savepoint}", **guarded("viewer"), summary="Get a savepoint")
def get_savepoint(savepoint: SavepointId, asking: Asks) -> SavepointShown:
    """One savepoint."""
    with asking.reading() as act:
        return _shown(act.now, savepoint_row(act, savepoint))


@router.delete(
    "/savepoints/{savepoint}",
    status_code=202,
    response_model=OperationOpened,
    **guarded("operator"),
    summary="Dispose of a savepoint",
)
def dispose_savepoint(savepoint: SavepointId, asking: Asks) -> Response:
    """It can be started from no more; the operation says when its files are gone.

    409 while a run that has not ended, or a job's next start, begins with it.
    """

    def effect(act: Act) -> ActAnswer:
        row = savepoint_row(act, savepoint)
        refuse_needed(act, row)
        _dispose(act, row)
        identifier = open_operation(act, "dispose", f"savepoint:{row.id}", path=row.path)
        asking.audit(act, "savepoint.dispose", str(row.id), before={"job": row.job_name, "path": row.path})
        return ActAnswer(202, OperationOpened(operation=identifier), f"/v1/operations/{identifier}", is_operation=True)

    return once(asking, effect)


def _dispose(act: Act, row: Row[Any]) -> None:
    matching = savepoint.c.id == row.id, savepoint.c.status == "READY"
    changed = update(savepoint).where(*matching).values(status="DISPOSED").returning(savepoint.c.id)
    if act.connection.execute(changed).first() is None:
        msg = "the savepoint was disposed of already"
        raise StateConflict(msg, code="REST-033", found=row.status, hint="nothing is left to do")


def _all() -> Select[Any]:
    with_job = savepoint.join(job_definition, job_definition.c.id == savepoint.c.job_id)
    with_run = with_job.outerjoin(execution, execution.c.execution_id == savepoint.c.execution_id)
    return select(savepoint, job_definition.c.job_name, execution.c.job_version).select_from(with_run)


def savepoint_row(act: Act, identifier: int) -> Row[Any]:
    """One savepoint.

    Raises:
        UnknownName: (REST-034) there is none of that number.
    """
    row = act.connection.execute(_all().where(savepoint.c.id == identifier)).first()
    if row is None:
        msg = "there is no such savepoint"
        raise UnknownName(msg, code="REST-034", found=str(identifier), hint="list the savepoints of the job")
    return row


def _shown(now: dt.datetime, row: Row[Any]) -> SavepointShown:
    return SavepointShown(
        id=row.id,
        job=row.job_name,
        job_version=row.job_version,
        run=row.execution_id,
        trigger_id=row.trigger_id,
        epoch=row.epoch,
        lineage=row.lineage,
        fingerprint=row.fingerprint,
        format=row.format,
        path=row.path,
        size=row.size,
        status=row.status,
        create_time=row.create_time,
        complete_time=row.complete_time,
        age=(now - row.create_time).total_seconds(),
    )
