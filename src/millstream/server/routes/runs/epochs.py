"""What a run left behind: its epochs and its exceptions."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel
from sqlalchemy import Row, select

from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import checkpoint, run_event
from millstream.control.refusals import UnknownName
from millstream.server.asking import Asks, guarded
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.shapes import RunId

router = APIRouter(tags=["runs"])
_NEWEST_EPOCH = Keyset(checkpoint.c.checkpoint_id, downwards=True)
_NEWEST_FAILURE = Keyset(run_event.c.seq, downwards=True)


class EpochShown(BaseModel):
    """One epoch: every one is a checkpoint."""

    epoch: int
    kind: str
    status: str
    state: dict[str, Any] | None
    path: str | None
    bytes: int | None
    create_time: dt.datetime
    complete_time: dt.datetime | None
    phases: dict[str, Any] | None
    summary: dict[str, Any] | None


class ExceptionShown(BaseModel):
    """One failure of a run, and what it was."""

    time: dt.datetime
    seq: int
    message: str
    code: str | None
    domain: str | None
    actor: str
    token: int


@router.get("/runs/{run}/epochs", **guarded("viewer"), summary="List the epochs of a run")
def list_epochs(run: RunId, asking: Asks, *, limit: PageSize = 100, cursor: Cursor = None) -> Page[EpochShown]:
    """Newest first."""
    with asking.reading() as act:
        found = select(checkpoint).where(checkpoint.c.execution_id == run_of(act, run).execution_id)
        return _NEWEST_EPOCH.page(act, asking, found, _epoch, limit=limit, cursor=cursor)


@router.get("/runs/{run}/epochs/{number}", **guarded("viewer"), summary="Get an epoch of a run")
def get_epoch(
    run: RunId, number: Annotated[int, Path(ge=0, le=2**62, description="The epoch.")], asking: Asks
) -> EpochShown:
    """One epoch."""
    with asking.reading() as act:
        matching = checkpoint.c.execution_id == run_of(act, run).execution_id, checkpoint.c.checkpoint_id == number
        row = act.connection.execute(select(checkpoint).where(*matching)).first()
    if row is None:
        msg = "the run has no such epoch, or it is no longer kept"
        raise UnknownName(msg, code="REST-032", found=str(number), hint="list its epochs")
    return _epoch(row)


@router.get("/runs/{run}/exceptions", **guarded("viewer"), summary="List the failures of a run")
def list_exceptions(run: RunId, asking: Asks, *, limit: PageSize = 100, cursor: Cursor = None) -> Page[ExceptionShown]:
    """Newest first, over all attempts."""
    with asking.reading() as act:
        matching = run_event.c.execution_id == run_of(act, run).execution_id, run_event.c.to_status == Status.FAILED
        found = select(run_event).where(*matching)
        return _NEWEST_FAILURE.page(act, asking, found, _exception, limit=limit, cursor=cursor)


def _epoch(row: Row[Any]) -> EpochShown:
    return EpochShown(
        epoch=row.checkpoint_id,
        kind=row.checkpoint_type,
        status=row.status,
        state=row.state_data,
        path=row.storage_path,
        bytes=row.storage_size_bytes,
        create_time=row.create_time,
        complete_time=row.complete_time,
        phases=row.phases,
        summary=row.summary,
    )


def _exception(row: Row[Any]) -> ExceptionShown:
    details = row.details or {}
    return ExceptionShown(
        time=row.time,
        seq=row.seq,
        message=row.cause,
        code=details.get("code"),
        domain=details.get("domain"),
        actor=row.actor,
        token=row.token,
    )
