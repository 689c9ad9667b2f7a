"""Compare the result of a query with the oracle's: by column name, in any order of rows."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Rows that are missing and rows that are too many, each with how often."""

    missing: collections.Counter[Row]
    extra: collections.Counter[Row]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    def __str__(self) -> str:
        if not self:
            return "equal"
        counts = f"{self.missing.total()} rows missing, {self.extra.total()} rows too many"
        shown = [f"{name} {row}" for name, rows in self._named() for row in list(rows)[:3]]
        return "; ".join([counts, *shown])

    def _named(self) -> list[tuple[str, collections.Counter[Row]]]:
        return [("missing", self.missing), ("too many", self.extra)]


def difference(expected: pa.Table, found: pa.Table | Iterable[Mapping[str, Any]]) -> Difference:
    """What a result lacks and has too much, over the columns of the expected one."""
    names = expected.column_names
    wanted, given = _counted(expected, names), _counted(found, names)
    return Difference(wanted - given, given - wanted)


def fingerprint(rows: pa.Table | Iterable[Mapping[str, Any]], names: Iterable[str] | None = None) -> tuple[int, int]:
    """The number of rows and a sum of their hashes: equal for equal rows in any order."""
    if names is None:
        if not isinstance(rows, pa.Table):
            rows = list(rows)
        names = rows.column_names if isinstance(rows, pa.Table) else sorted({name for row in rows for name in row})
    counted = _counted(rows, sorted(names))
    total = sum(_hash(row) * count for row, count in counted.items())
    return counted.total(), total % 2**64


def _hash(row: Row) -> int:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _counted(rows: pa.Table | Iterable[Mapping[str, Any]], names: Iterable[str]) -> collections.Counter[Row]:
    names = list(names)
    if isinstance(rows, pa.Table):
        columns = [_column(rows.column(name)) for name in names]
        return collections.Counter(zip(*columns, strict=True))
    return collections.Counter(tuple(_plain(row[name]) for name in names) for row in rows)


def _column(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64()).to_pylist())
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    """Times as milliseconds since 1970, decimals as text: equal values of different types become equal."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    return format(value, "f") if isinstance(value, Decimal) else value
