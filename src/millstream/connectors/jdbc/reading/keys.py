"""Keys: the columns that order the rows of a source, and their values as JSON that compares as the database compares it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
from typing import Any

KeyValues = list[Any]
"""A value for each key column, as JSON."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A column of a key, with what it takes to write down a value of it that compares exactly."""

    name: str
    type: str = ""
    """What a literal is cast to, as statements name it; empty where a value says its type itself."""
    collation: str = ""
    """Named in every comparison and order, so that both stay the same whatever becomes of the column; empty without one."""
    nullable: bool = True

    def to_json(self) -> list[Any]:
        """As it stands in positions and splits."""
        return [self.name, self.type, self.collation, self.nullable]

    @staticmethod
    def from_json(value: list[Any]) -> KeyColumn:
        """Read `to_json`."""
        name, kind, collation, nullable = value
        return KeyColumn(name=name, type=kind, collation=collation, nullable=nullable)


Key = tuple[KeyColumn, ...]


def encoded(value: Any) -> Any:
    """A value of Python's as JSON that says its type and loses nothing."""
    match value:
        case int() | str():
            return value
        case float():
            return {"real": value.hex()}
        case bytes() | bytearray():
            return {"bytes": value.hex()}
        case decimal.Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"timestamp": value.isoformat(sep=" ", timespec="microseconds")}
        case dt.date():
            return {"date": value.isoformat()}
    msg = f"{type(value).__name__} values cannot be compared exactly"
    raise TypeError(msg)


def decoded(value: Any) -> Any:
    """The value that `encoded` wrote."""
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return _DECODERS[kind](text)


_DECODERS = {
    "real": float.fromhex,
    "bytes": bytes.fromhex,
    "decimal": decimal.Decimal,
    "timestamp": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
}


def shown_key(key: Key, values: KeyValues | None) -> str:
    """A key for people: `id=17, day=2024-05-01`."""
    if values is None:
        return "the beginning"
    return ", ".join(f"{column.name}={decoded(value)}" for column, value in zip(key, values, strict=True))
