"""The intake: bodies are counted and timed while they are read, and looked through before anybody parses them again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.errors import RequestRefused
from millstream.server.facts import facts_of
from millstream.server.limits import Limits
from millstream.server.refusing import refuse, refused
from millstream.server.service import Service

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_JSON = "application/json"
STREAMED = re.compile(r"/v1/artifacts")
"""Its route reads the body itself, and counts it."""
ANYTHING = re.compile(r"/v1/hooks/[^/]*")
"""Calls from outside are signed as they come, whatever they hold."""


class BodyIntake:
    """ASGI: takes bodies in."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._limits = app, service.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with its whole body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if STREAMED.fullmatch(scope["path"]):
            await self._app(scope, _paced(receive, self._limits), send)
            return
        body = await self._read(scope, receive)
        facts_of(scope).body_sha256 = hashlib.sha256(body).hexdigest()
        if body and not ANYTHING.fullmatch(scope["path"]):
            _refuse_other_types(Headers(scope=scope))
            await run_in_threadpool(check_json, body, self._limits.json_depth)
        await self._app(scope, _replayed(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        length = Headers(scope=scope).get("content-length", "0")
        most = self._limits.body_bytes
        if length.isdigit() and int(length[:12]) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        size = 0
        until = _now() + self._limits.body_seconds
        while True:
            message = await _in_time(receive, until)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return b"".join(parts)


def _paced(receive: Receive, limits: Limits) -> Receive:
    """The same, of a client that has to keep up a rate: what came early is no leave to pause."""
    begun = _now()
    size, is_whole = 0, False

    async def next_piece() -> Message:
        nonlocal size, is_whole
        if is_whole:
            return await receive()
        until = min(begun + size / limits.archive_rate, _now()) + limits.body_seconds
        message = await _in_time(receive, until)
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        return message

    return next_piece


async def _in_time(receive: Receive, until: float) -> Message:
    try:
        async with asyncio.timeout_at(until):
            message = await receive()
    except TimeoutError:
        hint = "send it faster, or less at once"
        headers = {"Connection": "close"}  # or what is left of it would be waited for
        refuse("REST-008", "the body did not come in time", hint=hint, headers=headers)
    if message["type"] == "http.disconnect":
        refuse("REST-009", "the client left before its body was whole", hint="send it again")
    return message


def _now() -> float:
    return asyncio.get_running_loop().time()


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _too_large(most: int) -> RequestRefused:
    return refused("REST-003", "the body is too large", known=f"at most {most} bytes", hint="send less at once")


def _refuse_other_types(headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        refuse("REST-004", "bodies are JSON", found=repr(kind), known=_JSON, hint=f"send Content-Type: {_JSON}")


def check_json(body: bytes, deepest: int) -> None:
    """Refuse what no JSON reader should see: too deep, not JSON, numbers and characters that cannot be stored."""
    depth = 0
    for found in _BRACKETS.finditer(body):
        sign = found[0][:1]
        depth += (sign in b"[{") - (sign in b"]}")
        if depth > deepest:
            hint = f"nest at most {deepest} levels"
            refuse("REST-007", "the body is nested too deeply", hint=hint)
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except ValueError as problem:
        refuse("REST-005", "the body is not JSON", found=str(problem)[:200], hint="send valid JSON")
    _check_values(value)


def _no_number(name: str) -> None:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _check_values(value: Any) -> None:
    match value:
        case str():
            if _UNSTORABLE.search(value):
                hint = "leave out \\u0000 and halves of surrogate pairs"
                refuse("REST-006", "a text has a character that cannot be stored", hint=hint)
        case float():
            if not math.isfinite(value):
                refuse("REST-006", "a number is too large", hint="use one below 1e308")
        case dict():
            for key, each in value.items():
                _check_values(key)
                _check_values(each)
        case list():
            for each in value:
                _check_values(each)
