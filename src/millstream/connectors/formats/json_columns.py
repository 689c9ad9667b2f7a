"""Columns of the values that msgspec read from json."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.text_columns import converted
from millstream.connectors.json_values import decoder
from millstream.records.codecs import column_of

Values = Sequence[Any]
ToColumn = Callable[[Values], pa.Array]


def to_column(kind: pa.DataType) -> ToColumn:
    """What makes a column of values; it raises `ValueError`, or an error of Arrow's, for one that is none of the type."""
    if pa.types.is_float32(kind):
        return _singles
    if pa.types.is_timestamp(kind):
        return _times(kind)
    if pa.types.is_date(kind):
        return lambda values: converted(pa.array(values, pa.string()), kind)
    if pa.types.is_binary(kind):
        return _bytes
    if pa.types.is_nested(kind) and not _is_simple(kind):
        return _decoded(kind)
    return lambda values: pa.array(values, kind)


def _is_simple(kind: pa.DataType) -> bool:
    """Whether Arrow takes values as msgspec gives them."""
    if pa.types.is_list(kind):
        return _is_simple(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_simple(field.type) for field in kind)
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_string(kind)
    )


def _singles(tokens: Values) -> pa.Array:
    """From their digits, not by way of a double, which would round them twice."""
    texts = [None if token == b"null" else bytes(token) for token in tokens]
    return pa.array(texts, pa.binary()).cast(pa.string()).cast(pa.float32())


def _times(kind: pa.DataType) -> ToColumn:
    """Texts and milliseconds, also side by side."""

    def column(values: Values) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        if kinds == {int}:
            return converted(pa.array(values, pa.int64()), kind)
        if kinds <= {str}:
            return converted(pa.array(values, pa.string()), kind)
        texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        numbers = pa.array([value if isinstance(value, int) else None for value in values], pa.int64())
        return pc.coalesce(converted(texts, kind), converted(numbers, kind))

    return column


def _bytes(values: Values) -> pa.Array:
    return pa.array([None if text is None else base64.b64decode(text, validate=True) for text in values], pa.binary())


def _decoded(kind: pa.DataType) -> ToColumn:
    """Values whose parts mean something else than they are."""
    decode = decoder(kind, ignore_extra=True)
    assert decode is not None, "nested types have a decoder"

    def column(values: Values) -> pa.Array:
        return column_of([None if value is None else decode(value) for value in values], kind)

    return column
