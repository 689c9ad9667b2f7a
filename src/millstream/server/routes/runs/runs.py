"""Runs: listed, started, and asked for their end."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field
from sqlalchemy import Select, select

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of
from millstream.control.dispatcher.rescaling import rescale
from millstream.control.dispatcher.starting import checked_trigger, options_of, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.tuning import is_here
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.idempotency import ActAnswer, once
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.shapes import Body, EventShown, Name, OperationOpened, RunId, RunShown
from millstream.server.routes.showing import shown_event, shown_run

router = APIRouter(tags=["runs"])
_NEWEST_FIRST = Keyset(execution.c.start_time, execution.c.id, downwards=True)
_IN_ORDER = Keyset(run_event.c.seq)
StatusFilter = Annotated[str | None, Query(alias="status", max_length=16, description="Runs of this status.")]


class StartBody(Body):
    """How a run starts; stored with it, so that every attempt of it starts alike."""

    trigger_id: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    from_savepoint: Annotated[str | None, Field(max_length=4000)] = None
    allow_dropped_state: bool = False
    ignore_state_once: bool = False
    on_newer_output: Annotated[str, Field(max_length=40)] = "refuse"
    carry: Annotated[str | None, Field(max_length=400)] = None
    parallelism: Annotated[int | None, Field(ge=1, le=32768)] = None
    master: Annotated[str | None, Field(max_length=400)] = None
    params: dict[str, Any] = {}
    interval_start: Annotated[str | None, Field(max_length=64)] = None
    interval_end: Annotated[str | None, Field(max_length=64)] = None
    version: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    model_config = ConfigDict(json_schema_extra={"example": {"params": {"day": "2026-03-01"}}})


class StopBody(Body):
    """What a run is to do: an end, or a savepoint while it goes on."""

    mode: Literal["drain", "suspend", "cancel", "export_savepoint"]
    to: Annotated[str, Field(max_length=4000)] = ""
    form: Literal["canonical", "native"] = "canonical"
    model_config = ConfigDict(json_schema_extra={"example": {"mode": "drain"}})


class RescaleBody(Body):
    """At how many subtasks a run goes on."""

    parallelism: Annotated[int, Field(ge=1, le=32768)]
    model_config = ConfigDict(json_schema_extra={"example": {"parallelism": 4}})


@router.get("/runs", **guarded("viewer"), summary="List runs")
def list_runs(
    asking: Asks,
    *,
    status: StatusFilter = None,
    job: Annotated[str | None, Query(max_length=128, description="Runs of this job.")] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> Page[RunShown]:
    """Newest first."""
    with asking.reading() as act:
        found = select(execution) if job is None else _of_job(act, job)
        found = found if status is None else found.where(execution.c.status == status)
        scope = (status, job)
        return _NEWEST_FIRST.page(act, asking, found, shown_run, limit=limit, cursor=cursor, scope=scope)


@router.get("/jobs/{name}/runs", **guarded("viewer"), summary="List the runs of a job")
def list_job_runs(
    name: Name, asking: Asks, *, status: StatusFilter = None, limit: PageSize = 100, cursor: Cursor = None
) -> Page[RunShown]:
    """Newest first."""
    with asking.reading() as act:
        found = _of_job(act, name)
        found = found if status is None else found.where(execution.c.status == status)
        return _NEWEST_FIRST.page(act, asking, found, shown_run, limit=limit, cursor=cursor, scope=(status,))


def _of_job(act: Act, name: str) -> Select[Any]:
    return select(execution).where(execution.c.job_id == job_of(act, name).id)


@router.post(
    "/jobs/{name}/runs", status_code=202, response_model=RunShown, **guarded("operator"), summary="Start a run of a job"
)
def start_job(name: Name, body: StartBody, asking: Asks) -> Response:
    """The run, which a node claims next; the same `trigger_id` again, with the same options, gives the same run."""
    options = options_of(body.model_dump(exclude={"trigger_id"}, exclude_none=True))
    if options.master is not None and not is_here(options.master):
        asking.demand("author", f"the master {options.master!r}")

    def effect(act: Act) -> ActAnswer:
        run = start(act, name, options, trigger=checked_trigger(body.trigger_id) or _trigger_of(act, asking.key))
        asking.audit(act, "run.start", run.execution_id, after={"job": name, "options": run.options})
        return ActAnswer(202, shown_run(run), f"/v1/runs/{run.execution_id}")

    return woken(asking, once(asking, effect))


def _trigger_of(act: Act, key: str | None) -> str | None:
    """A key is its caller's own: the same one of another caller starts another run."""
    if key is None:
        return None
    digest = hashlib.sha256("\0".join((act.actor, key)).encode()).hexdigest()
    return f"key:{digest[:32]}"


@router.get("/runs/{run}", **guarded("viewer"), summary="Get a run")
def get_run(run: RunId, asking: Asks) -> RunShown:
    """One run, over all of its attempts."""
    with asking.reading() as act:
        return shown_run(run_of(act, run))


@router.post(
    "/runs/{run}/stop",
    status_code=202,
    response_model=OperationOpened,
    **guarded("operator"),
    summary="Ask a run for its end, or for a savepoint",
)
def stop_run(run: RunId, body: StopBody, asking: Asks) -> Response:
    """Drain, suspend, cancel, or export a savepoint; the operation says what became of it.

    Whoever is no author puts savepoints (`to`) below the service's own folder of checkpoints.
    """
    _check_place(asking, body.to)

    def effect(act: Act) -> ActAnswer:
        row = run_of(act, run)
        identifier = stop(act, row, Wish(body.mode, body.to, body.form), asking.asked)
        asking.audit(act, f"run.{body.mode}", row.execution_id, before={"status": row.status}, after={"to": body.to})
        return _opened(identifier)

    return woken(asking, once(asking, effect))


def _check_place(asking: Asking, to: str) -> None:
    """A driver may write wherever its user may: only those whose code does so anyway choose any place."""
    root = asking.service.checkpoints
    place = Path(to)
    is_ours = root is not None and place.is_relative_to(root.absolute()) and ".." not in place.parts
    if to and not is_ours:
        asking.demand("author", f"a savepoint outside of {root}" if root is not None else "a place for a savepoint")


def _opened(identifier: str) -> ActAnswer:
    return ActAnswer(202, OperationOpened(operation=identifier), f"/v1/operations/{identifier}", is_operation=True)


def woken(asking: Asking, answer: Response) -> Response:
    """What was written is carried out at once, if it is carried out here."""
    asking.service.wake()
    return answer


@router.post(
    "/runs/{run}/rescale",
    status_code=202,
    response_model=OperationOpened,
    **guarded("operator"),
    summary="Let a run go on at another parallelism",
)
def rescale_run(run: RunId, body: RescaleBody, asking: Asks) -> Response:
    """Suspend it, and start the job from there; the operation names the new run."""

    def effect(act: Act) -> ActAnswer:
        row = run_of(act, run)
        identifier = rescale(act, row, body.parallelism, asking.asked)
        asking.audit(act, "run.rescale", row.execution_id, after={"parallelism": body.parallelism})
        return _opened(identifier)

    return woken(asking, once(asking, effect))


@router.get("/runs/{run}/events", **guarded("viewer"), summary="List what happened to a run")
def list_events(run: RunId, asking: Asks, *, limit: PageSize = 100, cursor: Cursor = None) -> Page[EventShown]:
    """Oldest first, over all attempts, each with its cause."""
    with asking.reading() as act:
        found = select(run_event).where(run_event.c.execution_id == run_of(act, run).execution_id)
        return _IN_ORDER.page(act, asking, found, shown_event, limit=limit, cursor=cursor)
