"""Dead letters: where bad records are, in which groups they fall, and the records themselves, read by a node that sees them."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from sqlalchemy import Row, select

from millstream.contract.stored_questions import LetterFilter
from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.tables.runs import dead_letter, execution
from millstream.control.refusals import UnknownName
from millstream.control.stored.letters import asked_about, filter_of
from millstream.control.stored.places import newest_run
from millstream.control.stored.questions import LettersAsked
from millstream.control.texts import storable
from millstream.errors import InvalidStep
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.paging import Cursor, Keyset, Page, PageSize, sealed, unsealed
from millstream.server.routes.shapes import Name

router = APIRouter(tags=["dead letters"])
stored_router = APIRouter(tags=["dead letters"])
_NEWEST = Keyset(dead_letter.c.id, downwards=True)
_SHORT, _WHOLE = 4096, 1 << 20
OfRun = Annotated[str | None, Query(max_length=64, description="Those of one run.")]
OfJob = Annotated[str | None, Query(max_length=128, description="Those of a job.")]
OfStep = Annotated[str | None, Query(max_length=200, description="Those of a step.")]
Reason = Annotated[str | None, Query(max_length=2000, description="Of this group, as `reason` says it.")]
ErrorPart = Annotated[str, Query(max_length=2000, description="With this text in their error.")]
Ids = Annotated[list[str] | None, Query(description="These, by their ids or how those begin.")]
Whole = Annotated[bool, Query(description="Up to 1 MiB of each record instead of 4 KiB.")]


class DeadLetterShown(BaseModel):
    """Bad records of one epoch and step, and where they are."""

    id: int
    run: str
    epoch: int
    step: str
    reason: str
    count: int
    location: str
    replayed_by: str | None
    create_time: dt.datetime


class LetterGroup(BaseModel):
    """Bad records of one step with one kind of error."""

    step: str
    sink: str
    reason: str
    count: int
    new: int
    waiting: int
    replayed: int
    first: dt.datetime | None
    last: dt.datetime | None


class UnreadableLetters(BaseModel):
    """A step whose letters cannot be read back."""

    step: str
    code: str
    message: str


class LetterGroups(BaseModel):
    """The largest first; `more` are not shown."""

    job: str
    state: str
    groups: list[LetterGroup]
    more: int
    unreadable: list[UnreadableLetters]


class LetterShown(BaseModel):
    """One bad record; `cut` names texts that are longer than what is shown, with their bytes."""

    id: str
    step: str
    state: str
    at: dt.datetime | None
    attempt: int
    reason: str
    error: str
    record: str
    origin: str | None
    raw: str | None
    cut: dict[str, int]


class LetterPage(BaseModel):
    """Newest first."""

    items: list[LetterShown]
    total: int
    next: str | None


class DeadLetterDetail(DeadLetterShown):
    """Bad records of one epoch and step, with the records."""

    letters: list[LetterShown]
    total: int


@router.get("/dead-letters", **guarded("viewer"), summary="List bad records")
def list_dead_letters(
    asking: Asks, *, run: OfRun = None, job: OfJob = None, limit: PageSize = 100, cursor: Cursor = None
) -> Page[DeadLetterShown]:
    """Where bad records are, newest first: an index by epoch and step, without the records."""
    with asking.reading() as act:
        found = select(dead_letter)
        if run is not None:
            found = found.where(dead_letter.c.execution_id == run_of(act, run).execution_id)
        if job is not None:
            found = found.where(dead_letter.c.execution_id.in_(_runs_of(act, job)))
        return _NEWEST.page(act, asking, found, _row, limit=limit, cursor=cursor, scope=(run, job))


@stored_router.get("/dead-letters/groups", **guarded("viewer"), summary="Group bad records by step and reason")
def group_dead_letters(asking: Asks, *, job: OfJob = None, run: OfRun = None, step: OfStep = None) -> LetterGroups:
    """Counts, the first and the last time of each group, without records; read from where the job's sinks put them."""
    with asking.reading() as act:
        meant = asked_about(act, job=job, run=run)
        chosen = filter_of(act, meant, of_run=run is not None, step=step)
    return LetterGroups.model_validate(ask_stored(asking, LettersAsked(run=meant, act="groups", chosen=chosen)))


@stored_router.get("/dead-letters/{letter}", **guarded("editor"), summary="Read bad records of an epoch and step")
def get_dead_letter(
    letter: Annotated[int, Path(ge=1, le=2**62, description="The number of a row of the list.")],
    asking: Asks,
    *,
    limit: PageSize = 100,
    whole: Whole = False,
) -> DeadLetterDetail:
    """Payload, error and origin of each; what was removed from its sink is not there any more."""
    with asking.reading() as act:
        row = act.connection.execute(select(dead_letter).where(dead_letter.c.id == letter)).first()
        if row is None:
            msg = "there are no such bad records"
            raise UnknownName(msg, code="REST-043", found=str(letter), hint="list them: GET /v1/dead-letters")
        chosen = LetterFilter(step=row.step_uid, times=[round(row.create_time.timestamp() * 1000)])
    _audited(asking, row.execution_id, {"row": letter})
    wanted = LettersAsked(run=row.execution_id, act="show", chosen=chosen, limit=limit, payload=_bytes(whole))
    told = ask_stored(asking, wanted)
    return DeadLetterDetail(**_row(row).model_dump(), letters=told["letters"], total=told["total"])


@stored_router.get("/jobs/{name}/dead-letters", **guarded("editor"), summary="Read bad records of a job")
def read_dead_letters(
    name: Name,
    asking: Asks,
    *,
    step: OfStep = None,
    reason: Reason = None,
    error: ErrorPart = "",
    ids: Ids = None,
    run: OfRun = None,
    whole: Whole = False,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> LetterPage:
    """Payload, error and origin, newest first, over all runs of the job or of one."""
    scope = (step, reason, error, ids, run)
    passed = 0 if cursor is None else unsealed(asking, cursor, scope)[0]
    with asking.reading() as act:
        meant = newest_run(act, name).execution_id
        if run is not None and run_of(act, run).job_name != name:
            msg = "the run is one of another job"
            raise InvalidStep(msg, code="REST-044", found=run, hint="leave the run out, or name its own job")
        chosen = filter_of(act, run or meant, of_run=run is not None, step=step, reason=reason, error=error, ids=ids)
    _audited(asking, name, {"step": step, "run": run, "ids": ids})
    wanted = LettersAsked(run=meant, act="show", chosen=chosen, limit=limit, payload=_bytes(whole), passed=passed)
    told = ask_stored(asking, wanted)
    following = None if told["next"] is None else sealed(asking, [told["next"]], scope)
    return LetterPage(items=told["letters"], total=told["total"], next=following)


def _runs_of(act: Act, job: str) -> Any:
    """The runs of a job, as a query."""
    return select(execution.c.execution_id).where(execution.c.job_id == job_of(act, job).id)


def ask_stored(asking: Asking, asked: LettersAsked) -> dict[str, Any]:
    """The answer of a node."""
    stored = asking.service.stored
    assert stored is not None, "these routes are there only where nodes can be asked"
    return stored.ask(asked)


def _bytes(whole: bool) -> int:  # noqa: FBT001
    return _WHOLE if whole else _SHORT


def _audited(asking: Asking, target: str, said: dict[str, Any]) -> None:
    """Written down before it is read, as readings of state are."""
    with asking.acting() as act:
        known = {name: value for name, value in said.items() if value is not None}
        asking.audit(act, "dead_letters.read", target, after=storable(known))


def _row(row: Row[Any]) -> DeadLetterShown:
    return DeadLetterShown(
        id=row.id,
        run=row.execution_id,
        epoch=row.epoch,
        step=row.step_uid,
        reason=row.reason,
        count=row._mapping["count"],
        location=row.location,
        replayed_by=row.replayed_by,
        create_time=row.create_time,
    )
