"""Asking twice under one key gives the first answer: the key is written in the transaction of the effect."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import Row, func, insert, select

from millstream.control.act import Act
from millstream.control.metadata.tables.access import operation
from millstream.control.operations import AskedUnder
from millstream.server.asking import Asking
from millstream.server.refusing import refuse

KEPT = "answer"
"""Operations of this kind are nothing to wait for: they keep an answer."""


class ActAnswer(NamedTuple):
    """What a caller is told about an act."""

    status: int
    body: BaseModel
    location: str | None = None
    headers: dict[str, str] = {}
    is_operation: bool = False
    """Its operation was opened under the caller's key, and so keeps the answer itself."""


def once(asking: Asking, effect: Callable[[Act], ActAnswer]) -> JSONResponse:
    """Do it, or give the answer that was given for the same key."""
    with asking.acting() as act:
        given = _given(act, asking)
        if given is not None:
            return given
        answer = effect(act)
        content = jsonable_encoder(answer.body)
        headers = {**answer.headers, **({"Location": answer.location} if answer.location else {})}
        if asking.asked is not None and not answer.is_operation:
            _keep(act, asking.asked, str(answer.status), {"answer": content, "headers": headers})
    return JSONResponse(content, status_code=answer.status, headers=headers)


def _given(act: Act, asking: Asking) -> JSONResponse | None:
    asked = asking.asked
    if asked is None:
        return None
    _wait_for_others(act, asked)
    matching = (
        operation.c.actor == act.actor,
        operation.c.route == asked.route,
        operation.c.idempotency_key == asked.key,
    )
    row = act.connection.execute(select(operation).where(*matching)).first()
    if row is None:
        return None
    if row.body_sha256 != asked.body_sha256:
        hint = "use a key of its own for every request"
        refuse("REST-022", "another request was sent under this Idempotency-Key", found=asked.key, hint=hint)
    return _answer_of(row)


def _answer_of(row: Row[Any]) -> JSONResponse:
    if row.kind != KEPT:
        location = {"Location": f"/v1/operations/{row.id}"}
        return JSONResponse({"operation": row.id}, status_code=int(row.answer_code), headers=location)
    return JSONResponse(row.result["answer"], status_code=int(row.answer_code), headers=row.result["headers"])


def _wait_for_others(act: Act, asked: AskedUnder) -> None:
    """The same key at the same time: the second waits until the first is through. SQLite's writers take turns anyway."""
    if act.connection.dialect.name == "postgresql":
        digest = hashlib.sha256("\0".join((act.actor, asked.route, asked.key)).encode()).digest()
        number = int.from_bytes(digest[:8], signed=True)
        act.connection.execute(select(func.pg_advisory_xact_lock(number)))


def _keep(act: Act, asked: AskedUnder, code: str, result: dict[str, Any]) -> None:
    values = {
        "id": uuid.uuid4().hex,
        "actor": act.actor,
        "route": asked.route,
        "idempotency_key": asked.key,
        "body_sha256": asked.body_sha256,
        "kind": KEPT,
        "target": asked.route,
        "status": "done",
        "answer_code": code,
        "result": result,
        "create_time": act.now,
        "end_time": act.now,
    }
    act.connection.execute(insert(operation).values(**values))
