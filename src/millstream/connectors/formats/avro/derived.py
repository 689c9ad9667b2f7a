"""The Avro schema that columns have by themselves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from millstream.model.schema import Schema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
)


def schema_of_columns(schema: Schema) -> dict[str, Any]:
    """The Avro schema of the columns.

    Raises:
        ValueError: a column has a name that Avro does not take.
    """
    numbers = itertools.count(1)
    fields = [_field(field.name, field.type, numbers, nullable=field.nullable) for field in schema]
    return {"type": "record", "name": "Row", "fields": fields}


def _field(name: str, kind: pa.DataType, numbers: Iterator[int], *, nullable: bool) -> dict[str, Any]:
    if not _NAME.fullmatch(name):
        msg = f"column {name!r} has a name that Avro does not take"
        raise ValueError(msg)
    written = _written(kind, numbers)
    return {"name": name, "type": ["null", written], "default": None} if nullable else {"name": name, "type": written}


def _written(kind: pa.DataType, numbers: Iterator[int]) -> Any:
    for holds, written in _PLAIN:
        if holds(kind):
            return written
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _written(kind.value_type, numbers)]}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _written(kind.item_type, numbers)]}
    name = f"Row{next(numbers)}"
    if pa.types.is_map(kind):
        key = {"name": "key", "type": _written(kind.key_type, numbers)}
        pair = [key, _field("value", kind.item_type, numbers, nullable=True)]
        return {"type": "array", "items": {"type": "record", "name": name, "fields": pair}}
    fields = [_field(field.name, field.type, numbers, nullable=True) for field in kind]
    return {"type": "record", "name": name, "fields": fields}
