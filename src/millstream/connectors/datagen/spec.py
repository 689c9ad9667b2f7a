"""Options of the `datagen` source: fields, each with the kind of values it generates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Field, Schema
from millstream.model.time import duration_ms

_NEEDED = object()
_NUMBER = (int, float)
_INSTANT = "2024-01-01T00:00:00+00:00"
KINDS: dict[str, dict[str, tuple[tuple[type, ...], Any]]] = {
    "sequence": {"start": ((int,), 0), "step": ((int,), 1)},
    "int": {"low": ((int,), 0), "high": ((int,), _NEEDED)},
    "float": {"low": (_NUMBER, 0.0), "high": (_NUMBER, 1.0), "decimals": ((int, type(None)), None)},
    "choice": {"values": ((list,), _NEEDED), "weights": ((list, type(None)), None)},
    "string": {"prefix": ((str,), ""), "cardinality": ((int,), _NEEDED)},
    "timestamp": {"start": ((str, int), _INSTANT), "step": ((str, *_NUMBER), 1), "jitter": ((str, *_NUMBER), 0)},
    "zipf": {"cardinality": ((int,), _NEEDED), "exponent": (_NUMBER, 1.0), "prefix": ((str, type(None)), None)},
}
"""Each kind's parameters with their types and defaults; every kind also takes `nulls`, the share of null values."""

_CHOICE_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def datagen(
    *,
    fields: Mapping[str, Mapping[str, Any]],
    rows: int | None = None,
    seed: int = 0,
    rate: float | None = None,
) -> ConnectorSpec:
    """Generate rows: row `i` depends on the seed and `i` alone, however a run is cut into epochs and splits.

    Args:
        fields: name → generator, such as `{"kind": "int", "low": 0, "high": 100, "nulls": 0.1}`. Kinds: `sequence`
            (start, step), `int` (low, high; high excluded), `float` (low, high, decimals), `choice` (values, weights),
            `string` (prefix, cardinality), `timestamp` (start, step, jitter; milliseconds or text such as `1s`),
            `zipf` (cardinality, exponent, prefix).
        rows: how many; without it the source never ends.
        seed: other seeds give other rows.
        rate: rows per second; without it, as fast as they are read.
    """
    plain = {name: {key: _plain(value) for key, value in field.items()} for name, field in fields.items()}
    return ConnectorSpec("datagen", {"fields": plain, "rows": rows, "seed": seed, "rate": rate})


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    if isinstance(value, dt.timedelta):
        return duration_ms(value)
    return list(value) if isinstance(value, tuple) else value


def _checked_fields(fields: dict[str, Any]) -> dict[str, Any]:
    if not fields:
        msg = "at least one field"
        raise ValueError(msg)
    return {name: _checked_field(name, field) for name, field in fields.items()}


def _checked_field(name: str, field: Any) -> dict[str, Any]:
    kind = field.get("kind") if isinstance(field, Mapping) else None
    if kind not in KINDS:
        msg = f"field {name!r} of a kind among {', '.join(KINDS)}"
        raise ValueError(msg)
    known = {**KINDS[kind], "nulls": (_NUMBER, 0)}
    unknown = sorted(field.keys() - known.keys() - {"kind"})
    if unknown:
        msg = f"field {name!r} of kind {kind} with {', '.join(known)}; not {', '.join(unknown)}"
        raise ValueError(msg)
    checked = {"kind": kind}
    for key, (types, default) in known.items():
        value = field.get(key, default)
        if value is _NEEDED or not isinstance(value, types) or isinstance(value, bool):
            msg = f"field {name!r} with {key} as {' or '.join(each.__name__ for each in types)}"
            raise ValueError(msg)
        checked[key] = value
    _check_values(name, checked)
    return checked


def _check_values(name: str, field: dict[str, Any]) -> None:
    weights = field.get("weights")
    problems = {
        "nulls between 0 and 1": not 0 <= field["nulls"] <= 1,
        "high above low": "high" in field and field["high"] <= field["low"],
        "cardinality above 0": field.get("cardinality", 1) <= 0,
        "exponent above 0": field.get("exponent", 1) <= 0,
        "values of one type: bool, int, float or str": field["kind"] == "choice" and not _is_choice(field["values"]),
        "as many weights as values": weights is not None and len(weights) != len(field.get("values", ())),
        "weights not below 0, and one above": weights is not None and not (min(weights) >= 0 and sum(weights) > 0),
        "times that can be read": field["kind"] == "timestamp" and not _has_times(field),
    }
    for wanted, is_broken in problems.items():
        if is_broken:
            msg = f"field {name!r} with {wanted}"
            raise ValueError(msg)


def _is_choice(values: list[Any]) -> bool:
    kinds = {type(value) for value in values}
    return len(kinds) == 1 and kinds <= _CHOICE_TYPES.keys()


def _has_times(field: dict[str, Any]) -> bool:
    try:
        return step_us(field["step"]) >= 0 and step_us(field["jitter"]) >= 0 and start_us(field["start"]) is not None
    except (ValueError, InvalidStep):
        return False


def step_us(value: str | float) -> int:
    """A duration in microseconds: text, or a number of milliseconds."""
    return duration_ms(value) * 1000 if isinstance(value, str) else round(value * 1000)


def start_us(value: str | int) -> int:
    """An instant in microseconds since 1970: ISO text, or milliseconds."""
    if isinstance(value, int):
        return value * 1000
    instant = dt.datetime.fromisoformat(value)
    instant = instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)
    return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def schema_of_fields(options: Mapping[str, Any]) -> Schema:
    """The columns that the fields generate."""
    return Schema(tuple(Field(n, _type(f), nullable=f.get("nulls", 0) > 0) for n, f in options["fields"].items()))


def _type(field: Mapping[str, Any]) -> pa.DataType:
    match field["kind"]:
        case "float":
            return pa.float64()
        case "string":
            return pa.string()
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
        case "choice":
            return _CHOICE_TYPES[type(field["values"][0])]
        case "zipf" if field.get("prefix") is not None:
            return pa.string()
    return pa.int64()


def _not_negative(value: int | None) -> int | None:
    if value is not None and value < 0:
        msg = "a number not below zero"
        raise ValueError(msg)
    return value


def _above_zero(value: float | None) -> float | None:
    if value is not None and value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value


def _is_bounded(options: Mapping[str, Any]) -> bool:
    return options["rows"] is not None


DECLARATION = ConnectorDeclaration(
    name="datagen",
    source=SourceDeclaration(
        options={
            "fields": Option(kind=(dict,), doc="name and generator of each column", check=_checked_fields),
            "rows": Option(
                kind=(int, type(None)), default=None, doc="how many; without it, no end", check=_not_negative
            ),
            "seed": Option(kind=(int,), default=0, doc="other seeds give other rows", check=_not_negative),
            "rate": Option(
                kind=(int, float, type(None)),
                default=None,
                doc="rows per second; without it, as fast as they are read",
                check=_above_zero,
            ),
        },
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.datagen.source:DatagenEnumerator",
        reader="millstream.connectors.datagen.source:DatagenReader",
        is_bounded=_is_bounded,
        schema=schema_of_fields,
    ),
)
