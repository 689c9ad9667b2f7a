"""Schemas of stored entries: of their keys, and of their slots as far as Arrow has a type for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.model.schema import Schema, schema_of
from millstream.state.layout import StateLayout

_FORMATS = {
    "binary": pa.binary(),
    "date-time": pa.timestamp("us", tz="UTC"),
}
_PLAIN = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
}


def key_schema(layout: StateLayout) -> Schema:
    """The key columns."""
    return schema_of(layout.keys) if layout.keys else Schema(())


def arrow_type(schema: dict[str, Any]) -> pa.DataType | None:
    """The Arrow type that holds every value of a JSON schema; `None` when there is none."""
    match schema:
        case {"anyOf": arms}:
            kept = [arm for arm in arms if arm.get("type") != "null"]
            return arrow_type(kept[0]) if len(kept) == 1 else None
        case {"type": "array", "items": dict() as item} if "prefixItems" not in schema:
            inner = arrow_type(item)
            return None if inner is None else pa.list_(inner)
        case {"type": "object", "propertyNames": keys, "additionalProperties": values}:
            return _map_type(arrow_type(keys), arrow_type(values))
        case {"type": "object", "properties": fields}:
            return _struct_type({name: arrow_type(field) for name, field in fields.items()})
        case {"type": "string", "format": str(name)}:
            # State holds dates, times and decimals as text.
            return _FORMATS.get(name, pa.string())
        case {"type": str(name)}:
            return _PLAIN.get(name)
    return None


def _map_type(key: pa.DataType | None, value: pa.DataType | None) -> pa.DataType | None:
    return None if key is None or value is None else pa.map_(key, value)


def _struct_type(fields: dict[str, pa.DataType | None]) -> pa.DataType | None:
    if not fields or any(kind is None for kind in fields.values()):
        return None
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
