"""How Debezium writes values of tables: turned, by the types of the columns, into the json that is ours."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Mend = Callable[[Any], Any]
"""Makes of a value that is not null what our json has for it."""

UNITS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in a number of each unit."""
UNCHANGED = "__debezium_unavailable_value"
"""Stands for a long value that an update left as it was, and that the database therefore did not send."""
UNCHANGED_BYTES = base64.b64encode(UNCHANGED.encode()).decode("ascii")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_DAY = dt.date(1970, 1, 1)
_EXACT = decimal.Context(prec=100)


def is_unchanged(value: Any) -> bool:
    """Whether a value only stands for one that was not sent."""
    if isinstance(value, str):
        return value in {UNCHANGED, UNCHANGED_BYTES}
    return value in ([UNCHANGED], {UNCHANGED: UNCHANGED})


def mend(kind: pa.DataType, *, unit: str | None, is_base64: bool) -> Mend | None:
    """What reads values for a column; `None` where they are written as ours are.

    Args:
        kind: the type of the column.
        unit: of times that are numbers.
        is_base64: whether decimals that are text are bytes, from the highest to the lowest; else they are digits.
    """
    if pa.types.is_timestamp(kind):
        return _instant(unit)
    if pa.types.is_date(kind):
        return _day
    if pa.types.is_decimal(kind):
        return _decimal(kind.scale) if is_base64 else _number
    if pa.types.is_list(kind):
        return _items(mend(kind.value_type, unit=unit, is_base64=is_base64))
    if pa.types.is_map(kind):
        return _entries(mend(kind.item_type, unit=unit, is_base64=is_base64))
    if pa.types.is_struct(kind):
        return _fields({field.name: mend(field.type, unit=unit, is_base64=is_base64) for field in kind})
    return None


def _instant(unit: str | None) -> Mend:
    def read(value: Any) -> Any:
        number = _whole(value)
        if number is None:
            return value
        if unit is None:
            msg = "a time that is a number needs its unit: pass times='ms', 'us' or 'ns'"
            raise ValueError(msg)
        try:
            return (_EPOCH + dt.timedelta(microseconds=number * UNITS[unit] // 1000)).isoformat()
        except OverflowError:
            msg = f"{number} {unit} since 1970 is out of range, the years 1 to 9999: is times={unit!r} its unit?"
            raise ValueError(msg) from None

    return read


def _day(value: Any) -> Any:
    number = _whole(value)
    try:
        return value if number is None else (_FIRST_DAY + dt.timedelta(days=number)).isoformat()
    except OverflowError:
        msg = f"{number} days since 1970 is out of range, the years 1 to 9999"
        raise ValueError(msg) from None


def _whole(value: Any) -> int | None:
    """A whole number, in whichever form it was read; `None` for what is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return None
    if value != value // 1:
        msg = f"{value} is no whole number"
        raise ValueError(msg)
    return int(value)


def _decimal(scale: int) -> Mend:
    def read(value: Any) -> Any:
        return _digits(value, scale) if isinstance(value, str) else _number(value)

    return read


def _number(value: Any) -> Any:
    """A number of any scale says its own."""
    if (
        isinstance(value, dict)
        and isinstance(value.get("value"), str)
        and (scale := _whole(value.get("scale"))) is not None
    ):
        return _digits(value["value"], scale)
    return value


def _digits(text: str, scale: int) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        msg = f"a decimal that is not base64 ({problem}): pass decimals='text' if it is digits"
        raise ValueError(msg) from None
    return str(decimal.Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT))


def _items(item: Mend | None) -> Mend | None:
    if item is None:
        return None
    return lambda value: [_or_null(item, each) for each in value] if isinstance(value, list) else value


def _entries(item: Mend | None) -> Mend | None:
    if item is None:
        return None
    return lambda value: {k: _or_null(item, v) for k, v in value.items()} if isinstance(value, dict) else value


def _fields(fields: dict[str, Mend | None]) -> Mend | None:
    if not any(fields.values()):
        return None

    def read(value: Any) -> Any:
        return (
            {name: _or_null(fields.get(name), each) for name, each in value.items()}
            if isinstance(value, dict)
            else value
        )

    return read


def _or_null(read: Mend | None, value: Any) -> Any:
    return value if read is None or value is None else read(value)
