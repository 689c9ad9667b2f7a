"""The front: what every answer has, whoever asked for what, and the audit of those that were refused."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.server.access.audit import write_refusal
from millstream.server.access.gate import SAFE
from millstream.server.errors import error_answer, status_of
from millstream.server.facts import RequestFacts, open_facts
from millstream.server.refusing import refused
from millstream.server.service import Service

CONTENT_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_TRANSPORT = "max-age=31536000"
_TOLD_ANYWAY = (401, 403)
"""Refusals that are written down even where nothing was to be changed."""
_NOT_TOLD = (413, 429)
"""Whoever floods the service must not fill its audit."""


class Front:
    """ASGI: the outermost layer of ours."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ActAnswer a request, come what may."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts, begun, status = open_facts(scope), self._service.monotonic(), 500
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun, status
            if message["type"] == "http.response.start":
                has_begun, status = True, message["status"]
                self._dress(message, facts)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except (Exception, asyncio.CancelledError) as problem:
            if has_begun:
                raise
            answer = error_answer(problem if isinstance(problem, Exception) else _going_down(), facts)
            await self._audit(scope, facts)
            await answer(scope, receive, sent)
        finally:
            self._measure(scope, status, self._service.monotonic() - begun)

    def _measure(self, scope: Scope, status: int, seconds: float) -> None:
        """By the pattern of the route: paths hold names, of which there is no end; nor of what strangers try."""
        route = getattr(scope.get("route"), "path", "")
        if self._service.figures is not None and not route.endswith("/events"):
            self._service.figures.server.request(scope["method"], route, status, seconds)

    def _dress(self, message: Message, facts: RequestFacts) -> None:
        headers = MutableHeaders(scope=message)
        headers["X-Request-ID"] = facts.id
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if self._service.has_tls:
            headers["Strict-Transport-Security"] = _TRANSPORT

    async def _audit(self, scope: Scope, facts: RequestFacts) -> None:
        problem = facts.refusal
        if problem is None:
            return
        status = status_of(problem)
        is_write = scope["method"] not in SAFE
        if status in _NOT_TOLD or status >= 500 or not (is_write or status in _TOLD_ANYWAY):
            return
        action = f"{scope['method']} {getattr(scope.get('route'), 'path', '')}".strip()
        names: dict[str, Any] = {"caller": facts.caller, "request_id": facts.id, "problem": problem}
        await run_in_threadpool(write_refusal, self._service.metadata, action, scope["path"], **names)


def _going_down() -> Exception:
    """The server ends, and this request took longer than it waits: what it did may be written down or not."""
    hint = "ask again, under the same Idempotency-Key where it changes something"
    return refused("REST-052", "the server goes down", hint=hint)
