"""Sessions of browsers: a token is shown once, and a cookie stands for it from then on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.act import acting
from millstream.server.access.audit import write_audit
from millstream.server.access.gate import cookie_of
from millstream.server.access.sessions import LASTS, close_session, cookie_name, open_session
from millstream.server.access.tokens import caller_of, holder, note_use
from millstream.server.asking import Asks, guarded, unguarded
from millstream.server.facts import facts_of
from millstream.server.refusing import refuse
from millstream.server.routes.shapes import Body
from millstream.server.service import Service

router = APIRouter(tags=["session"])


class LoginBody(Body):
    """A token."""

    token: Annotated[str, Field(max_length=100)]
    model_config = ConfigDict(json_schema_extra={"example": {"token": "ms_0011223344556677_…"}})


class SessionShown(BaseModel):
    """Who is logged in; `csrf` is what a page sends as `X-CSRF-Token`, and is there for sessions only."""

    name: str
    role: str
    csrf: str | None


@router.post("/session", status_code=204, **unguarded(), summary="Log in")
def log_in(body: LoginBody, request: Request) -> Response:
    """Open a session for the holder of a token; the cookie is all that the answer has."""
    service: Service = request.app.state.service
    with acting(service.metadata) as act:
        row = holder(act, body.token)
        if row is None:
            hint = "use a token that is neither revoked nor expired"
            refuse("REST-013", "the token does not work", hint=hint)
        opened = open_session(act, row)
        note_use(act, row.id)
        caller, request_id = caller_of(row), facts_of(request.scope).id
        write_audit(act, "session.open", row.id, caller=caller, request_id=request_id)
    answer = Response(status_code=204)
    _set_cookie(answer, opened.cookie, has_tls=service.has_tls)
    return answer


@router.get("/session", **guarded("viewer"), summary="Who is logged in")
def who(asking: Asks) -> SessionShown:
    """The caller, and what its page has to send with changes."""
    return SessionShown(name=asking.caller.name, role=asking.caller.role, csrf=asking.caller.csrf)


@router.delete("/session", status_code=204, **guarded("viewer"), summary="Log out")
def log_out(asking: Asks, request: Request) -> Response:
    """End the session; a caller with a token has none to end."""
    has_tls = asking.service.has_tls
    cookie = cookie_of(request.headers, has_tls=has_tls)
    answer = Response(status_code=204)
    if cookie is not None and asking.caller.csrf is not None:
        with asking.acting() as act:
            close_session(act, cookie)
            asking.audit(act, "session.close", asking.caller.token_id)
        answer.delete_cookie(cookie_name(has_tls=has_tls), path="/", secure=has_tls, httponly=True, samesite="strict")
    return answer


def _set_cookie(answer: Response, value: str, *, has_tls: bool) -> None:
    answer.set_cookie(
        cookie_name(has_tls=has_tls),
        value,
        max_age=int(LASTS.total_seconds()),
        path="/",
        secure=has_tls,
        httponly=True,
        samesite="strict",
    )
