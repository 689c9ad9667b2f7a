"""Replaying and removing bad records: tried first without effect, then carried out as an operation by a node that sees them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import msgspec
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from millstream.contract.stored_questions import LetterFilter
from millstream.control.act import Act
from millstream.control.operations import open_operation
from millstream.control.stored.letters import KINDS, asked_about, filter_of
from millstream.control.stored.questions import LettersAsked
from millstream.control.texts import storable
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.idempotency import ActAnswer, once
from millstream.server.routes.shapes import Body, OperationOpened
from millstream.server.routes.stored.letters import ask_stored

router = APIRouter(tags=["dead letters"])


class LettersBody(Body):
    """Which are meant: of a job or a run; all conditions hold."""

    job: str | None = Field(None, max_length=128)
    run: str | None = Field(None, max_length=64)
    step: str | None = Field(None, max_length=200)
    reason: str | None = Field(None, max_length=2000)
    error: str = Field("", max_length=2000)
    ids: list[str] = Field([], max_length=10_000)
    dry_run: bool = False


class PurgeBody(LettersBody):
    """Which are meant, of those that do not wait to be replayed."""

    replayed: bool = False
    older_than_seconds: float | None = Field(None, ge=0, le=1e10)


class LettersTried(BaseModel):
    """What would be done."""

    job: str
    state: str
    replayed: int = 0
    before: int = 0
    refused: int = 0
    refusals: list[dict[str, str]] = []
    removed: int = 0
    waiting: int = 0


@router.post(
    "/dead-letters/replay",
    status_code=202,
    response_model=OperationOpened,
    **{**guarded("operator"), "responses": {**guarded("operator")["responses"], 200: {"model": LettersTried}}},
    summary="Replay bad records",
)
def replay_dead_letters(body: LettersBody, asking: Asks) -> Response:
    """Each once, however often it is asked for; a running job takes them with its next epochs, another with its next run."""
    return _done(asking, "replay", body)


@router.post(
    "/dead-letters/purge",
    status_code=202,
    response_model=OperationOpened,
    **{**guarded("operator"), "responses": {**guarded("operator")["responses"], 200: {"model": LettersTried}}},
    summary="Remove bad records",
)
def purge_dead_letters(body: PurgeBody, asking: Asks) -> Response:
    """Out of the sinks of the job; those that wait to be replayed stay."""
    state: Literal["replayed"] | None = "replayed" if body.replayed else None
    return _done(asking, "purge", body, state=state, older=body.older_than_seconds)


def _done(
    asking: Asking,
    what: Literal["replay", "purge"],
    body: LettersBody,
    *,
    state: Literal["replayed"] | None = None,
    older: float | None = None,
) -> Response:
    with asking.reading() as act:
        asked = _asked(act, what, body)
        before = None if older is None else act.now - dt.timedelta(seconds=older)
    narrowed: dict[str, Any] = {"state": state, "before": None if before is None else int(before.timestamp() * 1000)}
    asked = msgspec.structs.replace(asked, chosen=msgspec.structs.replace(asked.chosen, **narrowed))
    if body.dry_run:
        told = ask_stored(asking, msgspec.structs.replace(asked, dry=True))
        return JSONResponse(LettersTried.model_validate(told).model_dump())

    def effect(act: Act) -> ActAnswer:
        wish = storable(msgspec.to_builtins(asked))
        identifier = open_operation(act, KINDS[what], asked.run, asking.asked, letters=wish)
        said = body.model_dump(exclude_defaults=True)
        asking.audit(act, f"dead_letters.{what}", body.run or body.job or asked.run, after=storable(said))
        opened = OperationOpened(operation=identifier)
        return ActAnswer(202, opened, f"/v1/operations/{identifier}", is_operation=True)

    return once(asking, effect)


def _asked(act: Act, what: Literal["replay", "purge"], body: LettersBody) -> LettersAsked:
    run = asked_about(act, job=body.job, run=body.run)
    chosen: LetterFilter = filter_of(
        act,
        body.run or run,
        of_run=body.run is not None,
        step=body.step,
        reason=body.reason,
        error=body.error,
        ids=body.ids,
    )
    return LettersAsked(run=run, act=what, chosen=chosen)
