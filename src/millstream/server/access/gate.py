"""The gate: nothing passes without a caller but what is open on purpose. It stands before the routes, so none can forget it."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import NoReturn

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.control.act import acting, reading
from millstream.server.access.proxies import asker_of
from millstream.server.access.roles import Caller
from millstream.server.access.sessions import cookie_name, is_same, session_caller
from millstream.server.access.tokens import caller_of, holder, is_due, note_use
from millstream.server.facts import facts_of
from millstream.server.limits import Rates
from millstream.server.refusing import refuse, refuse_for_now
from millstream.server.service import Service

PREFIX = "/v1"
OPEN = frozenset({("GET", f"{PREFIX}/health"), ("GET", f"{PREFIX}/ready"), ("POST", f"{PREFIX}/session")})
"""Routes that need no caller. Opening a session checks its token itself."""
SIGNED = f"{PREFIX}/hooks/"
"""Below it every call has to be signed with the secret of its hook."""
SAFE = ("GET", "HEAD", "OPTIONS")
_SAME = "same-origin"


class Gate:
    """ASGI: finds out who asks, and how often."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        limits = service.limits
        self._rates = Rates(limits.requests_per_second, limits.burst, service.monotonic)
        self._logins = Rates(limits.logins_per_minute / 60, limits.logins_per_minute, service.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, with its caller, or refuse it."""
        if scope["type"] == "http":
            await self._check(scope)
        await self._app(scope, receive, send)

    async def _check(self, scope: Scope) -> None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        _refuse_zeros(scope)
        address = f"address {asker_of(scope, self._service.proxies)}"
        if (method, path) in OPEN or (method == "POST" and path.startswith(SIGNED)):
            self._count(self._logins if path.endswith("/session") else self._rates, address)
            _refuse_foreign(headers)
            return
        caller = await run_in_threadpool(self._caller, headers)
        self._count(self._rates, address if caller is None else caller.token_id)
        if caller is None:
            hint = "send the header Authorization: Bearer ms_…"
            refuse("REST-010", "the request has no token that works", hint=hint)
        facts_of(scope).caller = caller
        if caller.csrf is not None:
            _refuse_forged(headers, method, caller.csrf)

    def _count(self, rates: Rates, who: str) -> None:
        wait = rates.take(who)
        if wait <= 0:
            return
        if rates is self._logins:
            refuse_for_now("REST-015", "too many logins were tried", hint="wait a minute", wait=wait)
        refuse_for_now("REST-014", "too many requests", hint="ask less often", wait=wait)

    def _caller(self, headers: Headers) -> Caller | None:
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._by_token(text.strip())
        cookie = cookie_of(headers, has_tls=self._service.has_tls)
        if cookie is None:
            return None
        with reading(self._service.metadata) as act:
            return session_caller(act, cookie)

    def _by_token(self, text: str) -> Caller | None:
        metadata = self._service.metadata
        with reading(metadata) as act:
            row = holder(act, text)
            due = row is not None and is_due(row, act.now)
        if row is None:
            return None
        if due:
            with acting(metadata) as act:
                note_use(act, row.id)
        return caller_of(row)


def cookie_of(headers: Headers, *, has_tls: bool) -> str | None:
    """The session's cookie, if the request has one."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(cookie_name(has_tls=has_tls))
    except CookieError:
        return None
    return None if found is None else found.value


def _refuse_zeros(scope: Scope) -> None:
    # PostgreSQL stores no such character: what cannot be stored is not looked for either.
    if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
        refuse("REST-006", "the address has a character of value zero", hint="leave %00 out")


def _refuse_foreign(headers: Headers) -> None:
    """A page of another origin may not even try to open a session."""
    if headers.get("sec-fetch-site", _SAME) not in (_SAME, "none"):
        _refuse_as_forged("Sec-Fetch-Site", headers["sec-fetch-site"])


def _refuse_forged(headers: Headers, method: str, csrf: str) -> None:
    """A browser sends its cookie for any page that asks; only our own page knows the session's word."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and origin.partition("://")[2] != host:
        _refuse_as_forged("Origin", origin)
    if method in SAFE:
        _refuse_foreign(headers)
        return
    if headers.get("sec-fetch-site") != _SAME:
        _refuse_as_forged("Sec-Fetch-Site", headers.get("sec-fetch-site"))
    if not is_same(headers.get("x-csrf-token"), csrf):
        _refuse_as_forged("X-CSRF-Token", "another" if "x-csrf-token" in headers else None)


def _refuse_as_forged(header: str, found: str | None) -> NoReturn:
    hint = "send X-CSRF-Token of GET /v1/session from a page of this origin"
    refuse("REST-012", f"a request with a cookie needs the right {header}", found=found, hint=hint)
