"""Values of parameters: read from text or from Python by the type that was declared, and written as one canonical text."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidPlan, InvalidSchema
from millstream.model.types import parse_type, type_name

_WHOLE = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {"true": True, "false": False}


def param_type(name: str, kind: Any) -> str:
    """The canonical name of a parameter's type; types without a plain text are refused."""
    try:
        canonical = type_name(parse_type(kind)) if isinstance(kind, str) else ""
    except InvalidSchema:
        canonical = ""
    if canonical not in _READERS and not canonical.startswith("decimal("):
        msg = f"parameter {name!r} has a type that parameters do not have"
        known = [*_READERS, "decimal(p,s)"]
        raise InvalidPlan(msg, code="PARAM-004", found=repr(kind), known=known, hint="use one of the known types")
    return canonical


def read_value(name: str, kind: str, given: Any) -> Any:
    """A value as Python has it, from text or from a Python value; one that is not of the type is refused."""
    reader, expected = _READERS.get(kind, (_decimal_reader(kind), f"a number of type {kind}"))
    try:
        return reader(given)
    except (ValueError, OverflowError, decimal.InvalidOperation, pa.ArrowException):
        msg = f"parameter {name!r} has a wrong value"
        hint = f"correct -P {name}=VALUE, or params={{...}}"
        raise InvalidPlan(msg, code="PARAM-003", found=repr(given), known=expected, hint=hint) from None


def text_of(value: Any) -> str:
    """The canonical text of a value, the same wherever it stands; reading it gives the value again."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            naive = value.replace(tzinfo=None).isoformat()
            return naive if value.tzinfo is None else f"{naive}Z"
        case dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def sql_literal(name: str, value: Any) -> str:
    """A value as a literal that every database reads in the same way; what some would read otherwise is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        text = text_of(value)
        if "\\" in text:
            msg = f"parameter {name!r} holds a backslash, which databases do not read alike"
            hint = "leave it out of the query, and filter the rows behind it"
            raise InvalidPlan(msg, code="PARAM-003", found=repr(text), hint=hint)
        return text.upper() if isinstance(value, bool) else "'" + text.replace("'", "''") + "'"
    text = text_of(value)
    return f"({text})" if text.startswith("-") else text  # behind a minus it would begin a comment


def stored_value(value: Any) -> Any:
    """A value as JSON: numbers, booleans and text as they are, others as their text."""
    return value if isinstance(value, (bool, int, float, str)) else text_of(value)


def _text(given: Any) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise ValueError(given)
    # Bytes of a command line that are no text come as half of a pair of surrogates, which nothing can store.
    given.encode()
    return given


def _boolean(given: Any) -> bool:
    value = _BOOLEANS.get(given.lower()) if isinstance(given, str) else given
    if not isinstance(value, bool):
        raise ValueError(given)  # noqa: TRY004 - every wrong value is told in the same way
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def read(given: Any) -> int:
        value = int(given) if isinstance(given, str) and _WHOLE.fullmatch(given) else given
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**bits) <= value < 2**bits:
            raise ValueError(given)
        return value

    return read


def _number(given: Any) -> float:
    if not isinstance(given, (int, float, str)) or isinstance(given, bool) or not math.isfinite(float(given)):
        raise ValueError(given)
    return float(given)


def _date(given: Any) -> dt.date:
    value = dt.date.fromisoformat(given) if isinstance(given, str) else given
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise ValueError(given)  # noqa: TRY004 - every wrong value is told in the same way
    return value


def _moment(given: Any) -> dt.datetime:
    value = dt.datetime.fromisoformat(given) if isinstance(given, str) else given
    if not isinstance(value, dt.datetime):
        raise ValueError(given)  # noqa: TRY004 - every wrong value is told in the same way
    return value


def _instant(given: Any) -> dt.datetime:
    """Without a zone it is a time of UTC, as everywhere."""
    value = _moment(given)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def _local_time(given: Any) -> dt.datetime:
    value = _moment(given)
    if value.tzinfo is not None:
        raise ValueError(given)
    return value


def _decimal_reader(kind: str) -> Callable[[Any], decimal.Decimal]:
    def read(given: Any) -> decimal.Decimal:
        if not isinstance(given, (int, str, decimal.Decimal)) or isinstance(given, bool):
            raise ValueError(given)  # noqa: TRY004 - every wrong value is told in the same way
        value: decimal.Decimal = pa.scalar(decimal.Decimal(given), type=parse_type(kind)).as_py()
        return value

    return read


_READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "string": (_text, "text of Unicode without the character NUL"),
    "boolean": (_boolean, "true or false"),
    "byte": (_whole(7), "a whole number of 8 bits"),
    "short": (_whole(15), "a whole number of 16 bits"),
    "int": (_whole(31), "a whole number of 32 bits"),
    "long": (_whole(63), "a whole number of 64 bits"),
    "double": (_number, "a number"),
    "date": (_date, "a date such as 2024-01-31"),
    "timestamp": (_instant, "an instant such as 2024-01-31T08:00:00Z"),
    "timestamp_ntz": (_local_time, "a time without a zone, such as 2024-01-31T08:00:00"),
}
