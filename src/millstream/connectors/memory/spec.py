"""Options of the `memory` source: rows, and marks that script time, failures and the end of input."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millstream.errors import InvalidCall
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SourceDeclaration
from millstream.model.guarantee import SourceCapability

MARK = "__ms_mark"
"""The key that tells a mark from a row; its value is the kind of mark."""

_MARKS: dict[str, dict[str, type]] = {
    "watermark": {"at": int},
    "clock": {"advance": int},
    "abort": {"id": str},
    "eof": {},
}


def memory(rows: Sequence[Mapping[str, Any]], *, partition_by: str | None = None) -> ConnectorSpec:
    """Rows that stand in the program: a bounded, replayable source for tests and examples.

    Args:
        rows: rows and marks in the order they are read. Marks are `{"__ms_mark": "watermark", "at": ms}`,
            `{"__ms_mark": "clock", "advance": ms}`, `{"__ms_mark": "abort", "id": name}` and `{"__ms_mark": "eof"}`.
        partition_by: the column whose value names the source partition of a row; all are in partition `0` without it.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        msg = "memory takes a list of rows"
        raise InvalidCall(msg, found=repr(rows), hint="write ms.memory([{'user': 'ann'}])")
    return ConnectorSpec("memory", {"rows": [to_json(row) for row in rows], "partition_by": partition_by})


def to_json(value: Any) -> Any:
    """A Python value as a JSON value that the source reads back by its schema."""
    match value:
        case Mapping():
            plain: Any = {_key(name): to_json(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            plain = [to_json(each) for each in value]
        case dt.date():
            plain = value.isoformat()
        case decimal.Decimal():
            plain = str(value)
        case bytes() | bytearray() | memoryview():
            plain = {"__ms_bytes": base64.b64encode(value).decode("ascii")}
        case float() if not math.isfinite(value):
            plain = "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case _:
            plain = value
    return plain


def _key(name: Any) -> str:
    return name if isinstance(name, str) else str(to_json(name))


def _checked_rows(rows: list[Any]) -> list[Any]:
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            msg = f"rows and marks, each a mapping; row {index} is a {type(row).__name__}"
            raise ValueError(msg)  # noqa: TRY004 - the contract of option checks
        if MARK in row:
            _check_mark(row, index)
    return rows


def _check_mark(mark: dict[str, Any], index: int) -> None:
    fields = _MARKS.get(mark[MARK]) if isinstance(mark[MARK], str) else None
    if fields is None:
        msg = f"marks of kind {', '.join(sorted(_MARKS))}; row {index} is of kind {mark[MARK]!r}"
        raise ValueError(msg)
    if mark.keys() != {MARK, *fields} or any(type(mark[name]) is not kind for name, kind in fields.items()):
        wanted = ", ".join(f"{name}: {kind.__name__}" for name, kind in fields.items()) or "no fields"
        msg = f"a {mark[MARK]} mark with {wanted}; row {index} is {mark!r}"
        raise ValueError(msg)


def _is_bounded(_: Mapping[str, Any]) -> bool:
    return True


DECLARATION = ConnectorDeclaration(
    name="memory",
    source=SourceDeclaration(
        options={
            "rows": Option(
                kind=(list,), doc="rows and marks in the order they are read", check=_checked_rows, is_data=True
            ),
            "partition_by": Option(
                kind=(str, type(None)), default=None, doc="column whose value names the source partition of a row"
            ),
        },
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.memory.source:MemoryEnumerator",
        reader="millstream.connectors.memory.source:MemoryReader",
        is_bounded=_is_bounded,
        decode_again="millstream.connectors.memory.source:decode_again",
    ),
)
