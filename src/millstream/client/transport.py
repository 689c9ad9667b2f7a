"""How requests travel: with a token, a timeout, and again where that does no harm."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from millstream.client.problems import error_of
from millstream.errors import ExternalFailure, InvalidStep

TRIES = 4
_PIECE = 1 << 16
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_PASSING = (429, 502, 503, 504)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
Query = Mapping[str, str | int | list[str] | None]
Kind = TypeVar("Kind")


class Transport:
    """One connection pool to one service."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float,
        ca_file: str | None,
        plain_http: bool,
        tries: int = TRIES,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        host = _checked(url, plain_http=plain_http)
        self._tries, self._pause = tries, pause
        self._http = httpx2.Client(
            base_url=url.rstrip("/") + "/v1",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=httpx2.Timeout(timeout, connect=min(5.0, timeout)),
            verify=ca_file or True,
            trust_env=host not in _LOOPBACK,
        )

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def get(self, path: str, kind: type[Kind], query: Query | None = None) -> Kind:
        """Read something."""
        return decoded(self.send("GET", path, query=query), kind)

    def post(self, path: str, body: Mapping[str, Any] | None, kind: type[Kind], *, key: str | None = None) -> Kind:
        """Ask for something once, however often it has to be sent."""
        return decoded(
            self.send("POST", path, body=body or {}, headers={"Idempotency-Key": key or uuid.uuid4().hex}), kind
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request and take its answer; errors are raised as the service raised them."""
        content = None if body is None else msgspec.json.encode(body)
        told = {**(headers or {}), **({} if content is None else {"Content-Type": "application/json"})}
        params = {name: value for name, value in (query or {}).items() if value is not None}
        request = self._http.build_request(method, path, params=params or None, content=content, headers=told)
        answer = self._answer(request, is_repeatable=method == "GET" or "Idempotency-Key" in told)
        if answer.status_code >= 400:
            raise error_of(answer)
        return answer

    def _answer(self, request: httpx2.Request, *, is_repeatable: bool) -> httpx2.Response:
        pause = _FIRST_PAUSE
        for tried in range(1, self._tries + 1):
            try:
                answer = self._http.send(request)
            except httpx2.HTTPError as problem:
                # A request that never left can be sent again, whatever it asks for.
                may_repeat = is_repeatable or isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout)
                if tried == self._tries or not may_repeat:
                    raise self._away(problem) from problem
            else:
                if answer.status_code not in _PASSING or tried == self._tries or not is_repeatable:
                    return answer
                pause = max(pause, _told_pause(answer))
            self._pause(min(pause, _LONGEST_PAUSE))
            pause *= 2
        msg = "the loop above returns or raises"
        raise AssertionError(msg)

    def upload(self, path: str, query: Query, file: BinaryIO) -> httpx2.Response:
        """Send a file; it is named by its content, so that sending it again does no harm."""
        params = {name: value for name, value in query.items() if value is not None}
        for tried in range(1, self._tries + 1):
            file.seek(0)
            headers = {"Content-Type": "application/octet-stream"}
            try:
                answer = self._http.post(
                    path, params=params, content=iter(partial(file.read, _PIECE), b""), headers=headers
                )
            except httpx2.HTTPError as problem:
                if tried == self._tries:
                    raise self._away(problem) from problem
                self._pause(_FIRST_PAUSE * 2**tried)
                continue
            if answer.status_code >= 400:
                raise error_of(answer)
            return answer
        msg = "the loop above returns or raises"
        raise AssertionError(msg)

    def stream(self, path: str, query: Query, headers: Mapping[str, str], timeout: httpx2.Timeout) -> Any:
        """An answer that is read while it comes."""
        params = {name: value for name, value in query.items() if value is not None}
        return self._http.stream("GET", path, params=params, headers=dict(headers), timeout=timeout)

    def _away(self, problem: Exception) -> ExternalFailure:
        msg = "the service does not answer"
        hint = "check its address, and whether it runs: millstream server start"
        found = f"{self._http.base_url.host}: {type(problem).__name__} {problem}"
        return ExternalFailure(msg, code="REST-060", found=found, hint=hint)


def _told_pause(answer: httpx2.Response) -> float:
    told = answer.headers.get("retry-after", "")
    return float(told) if told.isdigit() else 0.0


def decoded(answer: httpx2.Response, kind: type[Kind]) -> Kind:
    """The answer as a value."""
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.MsgspecError as problem:
        msg = "the answer of the service cannot be understood"
        hint = "use a client of the service's version"
        raise ExternalFailure(msg, code="REST-061", found=str(problem), hint=hint) from problem


def escaped(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="")


def _checked(url: str, *, plain_http: bool) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
        msg = "that is not the address of a service"
        hint = "pass for example https://millstream.example.org or http://127.0.0.1:8080"
        raise InvalidStep(msg, code="REST-063", found=url, hint=hint)
    if parts.scheme == "http" and host not in _LOOPBACK and not plain_http:
        msg = "a token is not sent over plain http"
        raise InvalidStep(
            msg, code="REST-064", found=url, hint="use https, or pass plain_http=True on a network you trust"
        )
    return host
