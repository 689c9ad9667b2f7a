"""`Asking`: one request as routes see it: the service, who asks, and under which key."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from millstream.control.act import Act, acting, reading
from millstream.control.dispatcher.definitions import job_of
from millstream.control.operations import AskedUnder
from millstream.errors import InvalidStep
from millstream.server.access.audit import write_audit
from millstream.server.access.roles import Caller, Role
from millstream.server.errors import ErrorObject
from millstream.server.facts import facts_of
from millstream.server.refusing import refuse
from millstream.server.service import Service

_KEY = re.compile(r"[!-~]{1,200}")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorObject, "description": "Refused"},
    "5XX": {"model": ErrorObject, "description": "Failed"},
    422: {"model": ErrorObject, "description": "Refused: a value does not fit"},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request whose caller has the role that its route needs."""

    service: Service
    caller: Caller
    request_id: str
    route: str
    key: str | None
    body_sha256: str

    @contextlib.contextmanager
    def acting(self) -> Iterator[Act]:
        """One transaction in the name of the caller."""
        with acting(self.service.metadata, self.caller.name) as act:
            yield act

    @contextlib.contextmanager
    def reading(self) -> Iterator[Act]:
        """One transaction that only looks."""
        with reading(self.service.metadata) as act:
            yield act

    @property
    def asked(self) -> AskedUnder | None:
        """The key under which the caller may ask again."""
        return None if self.key is None else AskedUnder(self.route, self.key, self.body_sha256)

    def audit(
        self,
        act: Act,
        action: str,
        target: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        """Write down what the caller does, in the transaction in which it is done."""
        names: dict[str, Any] = {"caller": self.caller, "request_id": self.request_id}
        write_audit(act, action, target, before=before, after=after, **names)

    def demand(self, role: Role, what: str) -> None:
        """Refuse what the caller's role does not allow.

        Raises:
            RequestRefused: (REST-011) the role is too low.
        """
        if not self.caller.may(role):
            hint = f"ask somebody with the role {role}"
            refuse("REST-011", f"{what} needs the role {role}", found=self.caller.role, hint=hint)


def asking_of(request: Request) -> Asking:
    """What routes are given."""
    facts = facts_of(request.scope)
    assert facts.caller is not None, "the gate lets nobody through without a caller"
    key = request.headers.get("idempotency-key")
    if key is not None and _KEY.fullmatch(key) is None:
        hint = "use 1 to 200 printable characters without blanks"
        refuse("REST-023", "the Idempotency-Key cannot be used", found=repr(key[:40]), hint=hint)
    return Asking(
        service=cast("Service", request.app.state.service),
        caller=facts.caller,
        request_id=facts.id,
        route=f"{request.method} {request.url.path}"[:200],
        key=key if request.method == "POST" else None,
        body_sha256=facts.body_sha256,
    )


def job_id_of(act: Act, name: str) -> int:
    """The row of a job, by its name."""
    identifier: int = job_of(act, name).id
    return identifier


Asks = Annotated[Asking, Depends(asking_of)]


def guarded(role: Role) -> dict[str, Any]:
    """Arguments of a route that needs a role; the OpenAPI document says which."""
    return {
        "dependencies": [Depends(_needing(role))],
        "openapi_extra": {"x-role": role, "security": [{"token": []}, {"session": []}]},
        "responses": _PROBLEMS,
    }


def unguarded() -> dict[str, Any]:
    """Arguments of a route that is open on purpose."""
    return {"openapi_extra": {"x-role": "open", "security": []}, "responses": _PROBLEMS}


def _needing(role: Role) -> Callable[[Asking], None]:
    def check(asking: Asks) -> None:
        asking.demand(role, "this call")

    return check


def short_enough(what: str, text: str, most: int) -> str:
    """Text that fits its column.

    Raises:
        InvalidStep: (REST-029) it is too long.
    """
    if len(text) > most:
        msg = f"{what} is too long"
        raise InvalidStep(msg, code="REST-029", found=f"{len(text)} characters", hint=f"use at most {most}")
    return text
