"""Whatever goes wrong becomes one error object; what is our own mistake shows nothing of our insides."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DataError, IntegrityError
from starlette.responses import JSONResponse

from millstream.errors import ExternalFailure, MillstreamError, RequestRefused, StaleVersion, StateConflict, UnknownName
from millstream.server.facts import RequestFacts
from millstream.server.refusing import STATUSES, HeadedRefusal, refused

_AWAY = "CTL-002"
"""The service's own database is away: it comes back, so the same request may be sent again."""
_RETRY_SECONDS = "5"
_log = logging.getLogger(__name__)


class ErrorObject(BaseModel):
    """What went wrong, what was found, and what to do."""

    code: str
    message: str
    details: dict[str, Any]
    how_to_fix: str
    request_id: str
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "code": "CTL-024",
                "message": "there is no such job",
                "details": {"kind": "UnknownName", "domain": "user", "found": "'orders'"},
                "how_to_fix": "see what there is: millstream list",
                "request_id": "5f0c54e4d1b34f0a",
            }
        }
    )


def status_of(problem: MillstreamError) -> int:
    """The status of an answer that tells of this error."""
    if problem.code in STATUSES:
        return STATUSES[problem.code]
    kinds: tuple[tuple[type[MillstreamError], int], ...] = (
        (UnknownName, 404),
        (StateConflict, 409),
        (StaleVersion, 412),
    )
    for kind, status in kinds:
        if isinstance(problem, kind):
            return status
    if problem.domain == "external":
        return 503 if problem.code == _AWAY else 502
    return 422 if problem.domain == "user" else 500


def error_answer(problem: Exception, facts: RequestFacts) -> JSONResponse:
    """The answer; what was refused is kept for the audit."""
    known = _known(problem)
    if known is None or status_of(known) == 500:
        _log.error("request %s failed", facts.id, exc_info=problem)
        known = _hidden(facts)
    facts.refusal = known
    status = status_of(known)
    headers = dict(known.headers) if isinstance(known, HeadedRefusal) else {}
    headers |= {503: {"Retry-After": _RETRY_SECONDS}, 401: {"WWW-Authenticate": "Bearer"}}.get(status, {})
    return JSONResponse(error_object(known, facts.id).model_dump(), status_code=status, headers=headers)


def error_object(problem: MillstreamError, request_id: str) -> ErrorObject:
    """The error as it travels: clients build the same class of error from it."""
    fields = problem.fields()
    details = {name: fields[name] for name in ("step", "found", "known") if fields[name] is not None}
    return ErrorObject(
        code=problem.code,
        message=problem.message,
        details={"kind": _kind(problem), "domain": problem.domain, **details},
        how_to_fix=problem.hint or "look at the message",
        request_id=request_id,
    )


def _kind(problem: MillstreamError) -> str:
    return RequestRefused.__name__ if isinstance(problem, RequestRefused) else type(problem).__name__


def _known(problem: Exception) -> MillstreamError | None:
    match problem:
        case MillstreamError():
            return problem
        case IntegrityError():
            hint = "look at what is there now, and ask again"
            return refused("REST-031", "another changed the same thing at the same time", hint=hint)
        case DataError():
            # The message of the driver quotes values: they are the asker's own, but may be another's secret.
            return refused(
                "REST-006", "a value does not fit the place it is stored in", hint="use a shorter or smaller one"
            )
        case OSError():
            _log.error("files or connections of the server failed", exc_info=problem)
            return ExternalFailure("the server's own files or connections failed", hint="see the server's log")
    return None


def _hidden(facts: RequestFacts) -> MillstreamError:
    hint = f"see the server's log for request {facts.id}, and report it"
    return MillstreamError("the server made a mistake", code="REST-050", hint=hint)
