"""The Python type of a column's values: what msgspec decodes rows and keys in state to."""

from __future__ import annotations

import datetime as dt
import decimal
import typing
from typing import Any

import pyarrow as pa

from millstream.model.schema import Schema

_TESTS: tuple[tuple[Any, type], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_decimal, decimal.Decimal),
    (pa.types.is_timestamp, dt.datetime),
    (pa.types.is_date, dt.date),
)


def python_type(kind: pa.DataType) -> Any:
    """The Python type of one column's values, null included."""
    for test, plain in _TESTS:
        if test(kind):
            return plain | None
    if pa.types.is_list(kind):
        return list_of(python_type(kind.value_type)) | None
    if pa.types.is_map(kind):
        return dict_of(python_type(kind.key_type), python_type(kind.item_type)) | None
    fields = {field.name: python_type(field.type) for field in kind}
    return typing.TypedDict("Fields", fields) | None  # type: ignore[operator]


def row_type(schema: Schema) -> Any:
    """A row as a tuple of its columns' values."""
    return tuple_of(*(python_type(field.type) for field in schema))


# Types made while the program runs; a type checker cannot follow them.


def tuple_of(*items: Any) -> Any:
    """`tuple[...]` of these types."""
    generic: Any = tuple
    return generic[items]


def list_of(item: Any) -> Any:
    """`list[...]` of this type."""
    generic: Any = list
    return generic[item]


def set_of(item: Any) -> Any:
    """`set[...]` of this type."""
    generic: Any = set
    return generic[item]


def dict_of(key: Any, value: Any) -> Any:
    """`dict[..., ...]` of these types."""
    generic: Any = dict
    return generic[key, value]
