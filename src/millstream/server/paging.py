"""Pages: a signed cursor says where the next one begins, so that rows which come or go in between do no harm."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Row, Select, and_, or_

from millstream.control.act import Act
from millstream.errors import RequestRefused
from millstream.server.asking import Asking
from millstream.server.refusing import refused

_SIGNATURE = 16
Shown = TypeVar("Shown")
PageSize = Annotated[int, Query(ge=1, le=1000, description="Rows of one page.")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before.")]


class Page(BaseModel, Generic[Shown]):
    """Part of a list; `next` is the cursor of what follows."""

    items: list[Shown]
    next: str | None = None


class Keyset:
    """The columns by which a list is ordered; the last of them is unique.

    Args:
        columns: all go the same way.
        downwards: the greatest first.
    """

    def __init__(self, *columns: ColumnElement[Any], downwards: bool = False) -> None:
        self._columns, self._downwards = columns, downwards

    def page(
        self,
        act: Act,
        asking: Asking,
        found: Select[Any],
        shown: Callable[[Row[Any]], Shown],
        *,
        limit: int,
        cursor: str | None,
        scope: Sequence[object] = (),
    ) -> Page[Shown]:
        """One page of a list; a cursor of another list, or of other filters (`scope`), is refused."""
        seal = _Seal(asking.service.signing_key, json.dumps([asking.route, *map(str, scope)]))
        if cursor is not None:
            found = found.where(self._after(seal.opened(cursor)))
        order = [column.desc() if self._downwards else column.asc() for column in self._columns]
        keys = [column.label(f"key_{number}") for number, column in enumerate(self._columns)]
        rows = list(act.connection.execute(found.add_columns(*keys).order_by(*order).limit(limit + 1)))
        last = rows[limit - 1] if len(rows) > limit else None
        values = None if last is None else [last._mapping[key.name] for key in keys]
        return Page(items=[shown(row) for row in rows[:limit]], next=None if values is None else seal.closed(values))

    def _after(self, values: list[Any]) -> ColumnElement[bool]:
        """Behind these values. The first column is bounded by itself too: that is what an index can use."""
        if len(values) != len(self._columns):
            raise _unusable()
        cases = []
        for number, column in enumerate(self._columns):
            same = [each == value for each, value in zip(self._columns[:number], values, strict=False)]
            cases.append(and_(*same, self._beyond(column, values[number])))
        first = self._columns[0]
        bound = first <= values[0] if self._downwards else first >= values[0]
        return and_(bound, or_(*cases))

    def _beyond(self, column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
        beyond: ColumnElement[bool] = column < value if self._downwards else column > value
        return beyond


def sealed(asking: Asking, values: list[Any], scope: Sequence[object]) -> str:
    """A cursor that says where to go on, for lists that are not rows of the database."""
    return _Seal(asking.service.signing_key, json.dumps([asking.route, *map(str, scope)])).closed(values)


def unsealed(asking: Asking, cursor: str, scope: Sequence[object]) -> list[Any]:
    """What a cursor of `sealed` says; one of another list is refused."""
    return _Seal(asking.service.signing_key, json.dumps([asking.route, *map(str, scope)])).opened(cursor)


class _Seal:
    """Cursors can be read by anybody, and made by us alone."""

    def __init__(self, key: bytes, context: str) -> None:
        self._key, self._context = key, context.encode()

    def closed(self, values: list[Any]) -> str:
        content = json.dumps([_plain(value) for value in values]).encode()
        return base64.urlsafe_b64encode(self._sign(content) + content).decode().rstrip("=")

    def opened(self, cursor: str) -> list[Any]:
        try:
            raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        except (binascii.Error, UnicodeEncodeError, ValueError):
            raise _unusable() from None
        signature, content = raw[:_SIGNATURE], raw[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._sign(content)):
            raise _unusable()
        return [_value(each) for each in json.loads(content)]

    def _sign(self, content: bytes) -> bytes:
        return hmac.new(self._key, self._context + b"\0" + content, hashlib.sha256).digest()[:_SIGNATURE]


def _plain(value: Any) -> Any:
    return {"t": value.isoformat()} if isinstance(value, dt.datetime) else value


def _value(plain: Any) -> Any:
    return dt.datetime.fromisoformat(plain["t"]) if isinstance(plain, dict) else plain


def _unusable() -> RequestRefused:
    hint = "send `next` of the page before with the same filters, or begin anew"
    return refused("REST-024", "the cursor is not one of this list", hint=hint)
