"""Operations: what was asked for and takes a while, and what came of it. They are also what nodes are asked to do."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from sqlalchemy import Row, insert, select, update

from millstream.control.act import Act
from millstream.control.metadata.tables.access import operation
from millstream.control.refusals import UnknownName


class AskedUnder(NamedTuple):
    """Under which key somebody asked: asking again gets the first answer."""

    route: str
    key: str
    body_sha256: str = ""


def open_operation(act: Act, kind: str, target: str, asked: AskedUnder | None = None, **wish: Any) -> str:
    """Write an operation that is still to be done; its id is that of the request to the driver, too."""
    identifier = uuid.uuid4().hex
    asked = asked or AskedUnder(kind, identifier)
    connection = act.connection
    connection.execute(
        insert(operation).values(
            id=identifier,
            actor=act.actor,
            route=asked.route,
            idempotency_key=asked.key,
            body_sha256=asked.body_sha256,
            kind=kind,
            target=target,
            status="pending",
            answer_code="202",
            result={"wish": wish},
            create_time=act.now,
        )
    )
    return identifier


def handed_on(act: Act, identifier: str) -> bool:
    """A node gives it to a driver: `False` says that another did."""
    changed = update(operation).where(operation.c.id == identifier, operation.c.status == "pending")
    return act.connection.execute(changed.values(status="running").returning(operation.c.id)).first() is not None


def done(act: Act, identifier: str, **result: Any) -> None:
    """It came to its end."""
    _end(act, identifier, status="done", result=result)


def failed(act: Act, identifier: str, error: dict[str, Any]) -> None:
    """It could not be done."""
    _end(act, identifier, status="failed", error=error)


def never_begun(act: Act, identifier: str, error: dict[str, Any]) -> bool:
    """It is not done any more; `False` says that somebody has begun."""
    changed = update(operation).where(operation.c.id == identifier, operation.c.status == "pending")
    changed = changed.values(status="failed", error=error, end_time=act.now)
    return act.connection.execute(changed.returning(operation.c.id)).first() is not None


def _end(act: Act, identifier: str, **values: Any) -> None:
    is_open = operation.c.status.in_(("pending", "running"))
    changed = update(operation).where(operation.c.id == identifier, is_open).values(end_time=act.now, **values)
    act.connection.execute(changed)


def open_operations(act: Act, target: str, kinds: tuple[str, ...]) -> list[Row[Any]]:
    """What is asked of a run and has not come to its end."""
    is_open = operation.c.status.in_(("pending", "running"))
    found = select(operation).where(operation.c.target == target, operation.c.kind.in_(kinds), is_open)
    return list(act.connection.execute(found))


def operation_of(act: Act, identifier: str) -> Row[Any]:
    """One operation.

    Raises:
        UnknownName: (CTL-014) there is none of that id.
    """
    found = act.connection.execute(select(operation).where(operation.c.id == identifier)).first()
    if found is None:
        msg = "there is no such operation"
        raise UnknownName(msg, code="CTL-014", found=repr(identifier), hint="operations are kept for seven days")
    return found
