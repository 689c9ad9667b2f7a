"""The types by which msgspec reads json for columns: what it takes, reading by record takes too, and to the same value."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa

from millstream.model.schema import Schema
from millstream.records.value_types import dict_of, list_of

NULL = msgspec.Raw(b"null")
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_float64, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, str),
    (pa.types.is_date, str),
    (pa.types.is_timestamp, int | str),
    (pa.types.is_decimal, decimal.Decimal),
)


def row_type(schema: Schema, *, ignore_extra: bool) -> type[msgspec.Struct] | None:
    """A struct with the fields `f0`, `f1`, … for the columns; `None` if msgspec cannot read one of them as we do."""
    kinds = [msgspec.Raw if pa.types.is_float32(field.type) else _value_type(field.type) for field in schema]
    is_strict_inside = not ignore_extra and any("struct" in field.type_name for field in schema)
    if None in kinds or is_strict_inside:
        return None
    fields = [(f"f{place}", kind, NULL if kind is msgspec.Raw else None) for place, kind in enumerate(kinds)]
    names = {f"f{place}": name for place, name in enumerate(schema.names)}
    return msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=not ignore_extra, gc=False)


def _value_type(kind: pa.DataType) -> Any:
    """The type of a value or null; `None` if there is none."""
    for holds, plain in _PLAIN:
        if holds(kind):
            return plain | None
    if pa.types.is_integer(kind):
        bound = 1 << kind.bit_width - 1
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)] | None
    if pa.types.is_list(kind):
        item = _value_type(kind.value_type)
        return item and list_of(item) | None
    if pa.types.is_map(kind):
        item = _value_type(kind.item_type)
        return item and dict_of(str, item) | None
    if pa.types.is_struct(kind):
        return _struct_type(kind)
    return None


def _struct_type(kind: pa.StructType) -> Any:
    fields = {field.name: _value_type(field.type) for field in kind}
    if None in fields.values():
        return None
    return TypedDict("Fields", fields, total=False) | None  # type: ignore[operator]
