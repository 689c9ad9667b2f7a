"""Schedules of jobs: saved, paused, fired by hand, and what they decided."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Body as FromBody
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.act import Act
from millstream.control.schedule.dispatching import dispatcher_acts
from millstream.control.schedule.rows import StoredSchedule
from millstream.control.schedule.store import (
    delete_schedule,
    fire_now,
    get_schedule,
    next_fires,
    past_fires,
    pause_schedule,
    resume_schedule,
    set_schedule,
    shown_schedule,
)
from millstream.server.asking import Asks, guarded, job_id_of
from millstream.server.etags import IfMatch
from millstream.server.idempotency import ActAnswer, once
from millstream.server.refusing import refuse
from millstream.server.routes.runs.runs import woken
from millstream.server.routes.shapes import Body, Name

router = APIRouter(tags=["schedules"])
_SEEN = re.compile(r'(?:W/)?"(\d{1,9})"')
_EXAMPLE = {"type": "cron", "cron": "0 6 * * *", "time_zone": "Europe/Berlin"}
Document = Annotated[dict[str, Any], FromBody(examples=[_EXAMPLE], description="The values below `schedule:`.")]


class ScheduleShown(BaseModel):
    """A schedule, and when it fires next."""

    job: str
    schedule: dict[str, Any]
    enabled: bool
    revision: int
    revised_at: dt.datetime
    next_trigger_time: dt.datetime | None
    next: list[dt.datetime]


class FireTimes(BaseModel):
    """Times to come."""

    items: list[dt.datetime]


class FireShown(BaseModel):
    """One decision of a schedule."""

    fire_time: dt.datetime
    cause: str
    result: str
    reason: str | None
    run: str | None


class FireList(BaseModel):
    """What was decided."""

    items: list[FireShown]


class FireBody(Body):
    """A fire by hand; the same key again gives the same run."""

    key: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    model_config = ConfigDict(json_schema_extra={"example": {"key": "once-more"}})


@router.get("/jobs/{name}/schedule", **guarded("viewer"), summary="Get the schedule of a job")
def get_job_schedule(name: Name, asking: Asks, answer: Response) -> ScheduleShown:
    """The schedule, with its revision as `ETag`."""
    with asking.reading() as act:
        return _shown(act, get_schedule(act.connection, job_id_of(act, name)), answer)


@router.put("/jobs/{name}/schedule", **guarded("operator"), summary="Save the schedule of a job")
def put_job_schedule(
    name: Name, document: Document, asking: Asks, answer: Response, *, if_match: IfMatch = None
) -> ScheduleShown:
    """It counts from now: nothing fires at once, and nothing that was before comes again."""
    with asking.acting() as act:
        roots, seen = asking.service.watched, _seen(if_match)
        stored = set_schedule(act.connection, job_id_of(act, name), document, now=act.now, roots=roots, seen=seen)
        asking.audit(act, "schedule.set", name, after={"schedule": document, "revision": stored.revision})
        return _shown(act, stored, answer)


@router.delete("/jobs/{name}/schedule", status_code=204, **guarded("operator"), summary="Take a schedule away")
def delete_job_schedule(name: Name, asking: Asks) -> None:
    """What it decided stays known."""
    with asking.acting() as act:
        delete_schedule(act.connection, job_id_of(act, name))
        asking.audit(act, "schedule.delete", name)


@router.post("/jobs/{name}/schedule/pause", **guarded("operator"), summary="Pause a schedule")
def pause(name: Name, asking: Asks, answer: Response) -> ScheduleShown:
    """Nothing more is decided until it is resumed; runs go on."""
    with asking.acting() as act:
        stored = pause_schedule(act.connection, job_id_of(act, name))
        asking.audit(act, "schedule.pause", name)
        return _shown(act, stored, answer)


@router.post("/jobs/{name}/schedule/resume", **guarded("operator"), summary="Resume a schedule")
def resume(name: Name, asking: Asks, answer: Response) -> ScheduleShown:
    """It goes on from now: what would have fired meanwhile does not."""
    with asking.acting() as act:
        stored = resume_schedule(act.connection, job_id_of(act, name), now=act.now)
        asking.audit(act, "schedule.resume", name)
        return _shown(act, stored, answer)


@router.post(
    "/jobs/{name}/schedule/fire",
    status_code=202,
    response_model=FireShown,
    **guarded("operator"),
    summary="Fire a schedule by hand",
)
def fire(name: Name, body: FireBody, asking: Asks) -> Response:
    """Paused or not; its rule for runs at the same time holds."""

    def effect(act: Act) -> ActAnswer:
        key = body.key or uuid.uuid4().hex
        acts = dispatcher_acts(act.now, act.actor)
        fired = fire_now(act.connection, job_id_of(act, name), key=key, now=act.now, acts=acts)
        asking.audit(act, "schedule.fire", name, after={"result": fired.result, "run": fired.execution_id})
        return ActAnswer(202, _fire(fired._asdict()))

    return woken(asking, once(asking, effect))


@router.get("/jobs/{name}/schedule/next", **guarded("viewer"), summary="When a schedule fires next")
def next_times(name: Name, asking: Asks, *, count: Annotated[int, Query(ge=1, le=100)] = 5) -> FireTimes:
    """By the clock, paused or not."""
    with asking.reading() as act:
        stored = get_schedule(act.connection, job_id_of(act, name))
        return FireTimes(items=next_fires(stored, act.now, count))


@router.get("/jobs/{name}/schedule/fires", **guarded("viewer"), summary="What a schedule decided")
def fires(
    name: Name,
    asking: Asks,
    *,
    before: Annotated[dt.datetime | None, Query(description="Older than that.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FireList:
    """Newest first: what ran, what was skipped, and why."""
    at = before.replace(tzinfo=before.tzinfo or dt.UTC) if before is not None else None
    with asking.reading() as act:
        found = past_fires(act.connection, job_id_of(act, name), beyond=None if at is None else (at, ""), limit=limit)
    return FireList(items=[_fire(each) for each in found])


def _seen(if_match: str | None) -> int | None:
    if if_match is None:
        return None
    found = _SEEN.fullmatch(if_match.strip())
    if found is None:
        refuse(
            "REST-006", "If-Match is no revision of a schedule", found=if_match[:80], hint="send the schedule's ETag"
        )
    return int(found[1])


def _shown(act: Act, stored: StoredSchedule, answer: Response) -> ScheduleShown:
    answer.headers["ETag"] = f'"{stored.revision}"'
    return ScheduleShown.model_validate(shown_schedule(stored, act.now))


def _fire(facts: dict[str, Any]) -> FireShown:
    names = ("fire_time", "cause", "result", "reason")
    return FireShown(**{name: facts[name] for name in names}, run=facts["execution_id"])
