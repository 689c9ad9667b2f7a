"""Jobs: listed, submitted, changed, switched on and off, and taken out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Row, Select, select

from millstream.control.act import Act
from millstream.control.dispatcher import definitions
from millstream.control.metadata.tables.jobs import job_definition as job_table
from millstream.control.metadata.tables.runs import execution
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.etags import IfMatch, IfNoneMatch, etag_of, expect
from millstream.server.idempotency import ActAnswer, once
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.jobs.submitting import JobBody, settle, submission_of
from millstream.server.routes.shapes import Body, JobShown, Name, RunSummary
from millstream.server.routes.showing import newest_run, shown_job

router = APIRouter(tags=["jobs"])
_BY_NAME = Keyset(job_table.c.job_name)


class JobChange(Body):
    """What can be changed without a new version."""

    enabled: bool | None = None
    max_retry_times: Annotated[int | None, Field(ge=0, le=1000)] = None
    model_config = ConfigDict(json_schema_extra={"example": {"enabled": False}})


class Validated(BaseModel):
    """What a definition would be."""

    name: str
    type: str
    fingerprint: str
    parallelism: int
    guarantee: str
    steps: list[dict[str, Any]]
    secrets: list[str]
    params: list[dict[str, Any]]


@router.get("/jobs", **guarded("viewer"), summary="List jobs")
def list_jobs(
    asking: Asks,
    *,
    state: Annotated[str | None, Query(max_length=16, description="Status of the newest run.")] = None,
    kind: Annotated[str | None, Query(alias="type", max_length=32, description="The job's type.")] = None,
    q: Annotated[str | None, Query(max_length=128, description="Part of the name.")] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> Page[JobShown]:
    """Jobs by name, each with its newest run."""
    with asking.reading() as act:
        found = _matching(state, kind, q)
        return _BY_NAME.page(act, asking, found, _listed, limit=limit, cursor=cursor, scope=(state, kind, q))


def _matching(state: str | None, kind: str | None, part: str | None) -> Select[Any]:
    newest = execution.alias("newest")
    of_job = select(newest.c.id).where(newest.c.job_id == job_table.c.id)
    last = of_job.order_by(newest.c.start_time.desc(), newest.c.id.desc()).limit(1).scalar_subquery()
    columns = [column.label(f"run_{column.name}") for column in execution.c if column.name in _RUN_COLUMNS]
    found = select(job_table, *columns).select_from(job_table.outerjoin(execution, execution.c.id == last))
    found = found.where(job_table.c.deleted_time.is_(None))
    if state is not None:
        found = found.where(execution.c.status == state)
    if kind is not None:
        found = found.where(job_table.c.job_type == kind)
    return found if part is None else found.where(job_table.c.job_name.icontains(part, autoescape=True))


_RUN_COLUMNS = ("execution_id", "status", "start_time", "end_time")


def _listed(row: Row[Any]) -> JobShown:
    shown = shown_job(row, None)
    if row.run_execution_id is None:
        return shown
    times = {"start_time": row.run_start_time, "end_time": row.run_end_time}
    return shown.model_copy(update={"run": RunSummary(id=row.run_execution_id, status=row.run_status, **times)})


@router.post("/jobs", status_code=201, response_model=JobShown, **guarded("editor"), summary="Submit a job")
def submit_job(body: JobBody, asking: Asks) -> Response:
    """Take a new job in; a job with code needs the role author."""
    job = submission_of(asking, body)

    def effect(act: Act) -> ActAnswer:
        row = definitions.submit(act, job)
        settle(asking, act, row.id, body)
        asking.audit(act, "job.submit", row.job_name, after=_facts(row))
        place = f"/v1/jobs/{row.job_name}"
        return ActAnswer(201, shown_job(row, None), place, {"ETag": etag_of(row, newest_run(act, row.id))})

    return once(asking, effect)


@router.post("/jobs/validate", **guarded("editor"), summary="Compile a job without submitting it")
def validate_job(body: JobBody, asking: Asks) -> Validated:
    """What the job would be; what is wrong with it is the answer's error."""
    planned = submission_of(asking, body).planned
    shown = {name: getattr(planned, name) for name in Validated.model_fields if name != "type"}
    return Validated(type=planned.mode, **shown)


@router.get("/jobs/{name}", **guarded("viewer"), summary="Get a job")
def get_job(name: Name, asking: Asks, answer: Response, *, if_none_match: IfNoneMatch = None) -> JobShown:
    """A job, with its `ETag`; 304 where nothing changed since."""
    with asking.reading() as act:
        row = definitions.job_of(act, name)
        newest = newest_run(act, row.id)
    answer.headers["ETag"] = etag_of(row, newest)
    if if_none_match is not None and if_none_match.strip() == answer.headers["ETag"]:
        return Response(status_code=304, headers=dict(answer.headers))  # type: ignore[return-value]
    return shown_job(row, newest)


@router.put("/jobs/{name}", **guarded("editor"), summary="Submit a new version of a job")
def change_job(name: Name, body: JobBody, asking: Asks, answer: Response, *, if_match: IfMatch = None) -> JobShown:
    """Replace the definition; runs that go on keep theirs until they are started again."""
    with asking.reading() as act:
        expect(definitions.job_of(act, name), if_match, required=True)
    job = submission_of(asking, body)
    with asking.acting() as act:
        before = definitions.held_job(act, name)
        expect(before, if_match)
        row = definitions.new_version(act, name, job, expected=before.version)
        settle(asking, act, row.id, body)
        asking.audit(act, "job.change", name, before=_facts(before), after=_facts(row))
        return _shown(act, row, answer)


@router.patch("/jobs/{name}", **guarded("operator"), summary="Switch a job on or off")
def patch_job(name: Name, body: JobChange, asking: Asks, answer: Response, *, if_match: IfMatch = None) -> JobShown:
    """Change what needs no new version."""
    with asking.acting() as act:
        before = definitions.held_job(act, name)
        expect(before, if_match)
        row = definitions.change(act, name, **body.model_dump(exclude_none=True))
        asking.audit(act, "job.patch", name, before=_facts(before), after=_facts(row))
        return _shown(act, row, answer)


@router.delete("/jobs/{name}", status_code=204, **guarded("editor"), summary="Take a job out")
def delete_job(name: Name, asking: Asks, *, if_match: IfMatch = None) -> None:
    """Its settings, schedule and hooks go, its runs, checkpoint and savepoints stay; 409 while a run of it has not ended."""
    with asking.acting() as act:
        before = definitions.held_job(act, name)
        _demand_author(asking, before)
        expect(before, if_match)
        definitions.delete(act, name)
        asking.audit(act, "job.delete", name, before=_facts(before))


def _demand_author(asking: Asking, job: Row[Any]) -> None:
    if job.dag_definition.get("kind") == "code":
        asking.demand("author", "taking out a job with code")


def _shown(act: Act, row: Row[Any], answer: Response) -> JobShown:
    newest = newest_run(act, row.id)
    answer.headers["ETag"] = etag_of(row, newest)
    return shown_job(row, newest)


def _facts(row: Row[Any]) -> dict[str, Any]:
    names = ("version", "enabled", "max_retry_times", "parallelism", "fingerprint")
    return {name: getattr(row, name) for name in names}
