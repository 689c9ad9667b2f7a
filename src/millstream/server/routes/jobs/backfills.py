"""Backfills: runs for stretches of the past, a few at a time."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.act import Act
from millstream.control.schedule.backfill import BackfillPlan
from millstream.control.schedule.backfills import backfill_intervals, backfills, cancel_backfill, create_backfill
from millstream.control.schedule.store import get_schedule
from millstream.errors import InvalidStep
from millstream.server.asking import Asking, Asks, guarded, job_id_of
from millstream.server.idempotency import ActAnswer, once
from millstream.server.routes.shapes import Body, Name

router = APIRouter(tags=["schedules"])
BackfillId = Annotated[int, Path(ge=1, le=2**62)]
_EXAMPLE: dict[str, Any] = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-08T00:00:00Z", "dry_run": True}


class BackfillBody(Body):
    """What is to be filled: intervals of the schedule that end in the stretch."""

    start: Annotated[str, Field(alias="from", max_length=40)]
    to: Annotated[str, Field(max_length=40)]
    order: Literal["oldest", "newest"] = "oldest"
    max_parallel: Annotated[int, Field(ge=1, le=100)] = 1
    dry_run: bool = False
    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})


class BackfillSpan(BaseModel):
    """One interval."""

    start: dt.datetime
    end: dt.datetime


class BackfillPreview(BaseModel):
    """What a backfill runs, in its order; `id` is there once it has begun."""

    id: int | None = None
    intervals: list[BackfillSpan]


class BackfillShown(BaseModel):
    """A backfill, and how far it is."""

    id: int
    start: dt.datetime
    to: dt.datetime
    order: str
    max_parallel: int
    status: str
    create_time: dt.datetime
    end_time: dt.datetime | None
    actor: str


class BackfillList(BaseModel):
    """Backfills of a job."""

    items: list[BackfillShown]


@router.get("/jobs/{name}/backfills", **guarded("viewer"), summary="List the backfills of a job")
def list_backfills(name: Name, asking: Asks) -> BackfillList:
    """The newest hundred."""
    with asking.reading() as act:
        return BackfillList(items=[_shown(each) for each in backfills(act.connection, job_id_of(act, name))])


@router.post(
    "/jobs/{name}/backfills",
    status_code=202,
    response_model=BackfillPreview,
    **guarded("operator"),
    summary="Run a job for a stretch of the past",
)
def begin_backfill(name: Name, body: BackfillBody, asking: Asks) -> Response:
    """With `dry_run` nothing begins: 200, and what would run."""
    plan = BackfillPlan(_instant("from", body.start), _instant("to", body.to), body.order, body.max_parallel)
    if body.dry_run:
        with asking.reading() as act:
            shown = _preview(act, job_id_of(act, name), plan)
        return JSONResponse(shown.model_dump(mode="json"))
    return once(asking, lambda act: _begun(asking, act, name, plan))


def _begun(asking: Asking, act: Act, name: str, plan: BackfillPlan) -> ActAnswer:
    job_id, key = job_id_of(act, name), asking.key or uuid.uuid4().hex
    stored = get_schedule(act.connection, job_id)
    number = create_backfill(act.connection, stored, plan, key=key, actor=act.actor, now=act.now)
    told = {"from": plan.after.isoformat(), "to": plan.until.isoformat(), "backfill": number}
    asking.audit(act, "backfill.begin", name, after=told)
    return ActAnswer(202, _preview(act, job_id, plan).model_copy(update={"id": number}))


@router.delete(
    "/jobs/{name}/backfills/{backfill}",
    status_code=204,
    **guarded("operator"),
    summary="Start no more runs of a backfill",
)
def end_backfill(name: Name, backfill: BackfillId, asking: Asks) -> None:
    """Those that run go on."""
    with asking.acting() as act:
        cancel_backfill(act.connection, job_id_of(act, name), backfill, act.now)
        asking.audit(act, "backfill.cancel", f"{name}/{backfill}")


def _preview(act: Act, job_id: int, plan: BackfillPlan) -> BackfillPreview:
    found = backfill_intervals(get_schedule(act.connection, job_id), plan, act.now)
    return BackfillPreview(intervals=[BackfillSpan(start=each.start, end=each.end) for each in found])


def _instant(field: str, text: str) -> dt.datetime:
    try:
        found = dt.datetime.fromisoformat(text)
        return found.replace(tzinfo=found.tzinfo or dt.UTC).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        msg = f"{field} is no time"
        raise InvalidStep(msg, code="REST-036", found=repr(text), hint="write it as 2026-03-01T00:00:00Z") from None


def _shown(row: dict[str, Any]) -> BackfillShown:
    names = ("id", "max_parallel", "status", "create_time", "end_time", "actor")
    times = {"start": row["from_time"], "to": row["to_time"], "order": row["direction"]}
    return BackfillShown(**{name: row[name] for name in names}, **times)
