"""Values as PostgreSQL writes them, column by column, turned into the types that the schema declares."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import Field

_INTEGERS = {"byte": {21}, "short": {21}, "int": {21, 23}, "long": {20, 21, 23, 26}}
_OTHERS = {
    "boolean": {16},
    "binary": {17},
    "float": {700},
    "double": {700, 701, 1700},
    "date": {1082},
    "timestamp": {1184},
    "timestamp_ntz": {1114},
}
_OF_DECIMALS = {20, 21, 23, 1700}
_FIRST_OF_USERS = 16384
"""Types with higher numbers were made by users, as domains and enumerations: their values tell whether they fit."""


def holds(field: Field, type_oid: int) -> bool:
    """Whether a column of the schema takes the values of a type of the server; text takes all of them as they are written."""
    if pa.types.is_string(field.type) or type_oid >= _FIRST_OF_USERS:
        return True
    if pa.types.is_decimal(field.type):
        return type_oid in _OF_DECIMALS
    return type_oid in {**_INTEGERS, **_OTHERS}[field.type_name]


def typed_column(texts: pa.Array, field: Field) -> pa.Array:
    """A column of texts as what they stand for.

    Args:
        texts: as bytes, null where the value is.
        field: the column of the schema.

    Raises:
        ValueError: a text stands for no value of the type, or is null where none may be.
    """
    if texts.null_count and not field.nullable:
        msg = f"column {field.name!r} is null"
        raise ValueError(msg)
    try:
        return _converted(texts, field.type)
    except ValueError as problem:
        msg = f"column {field.name!r}: {problem}"
        raise ValueError(msg) from None


def _converted(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return _booleans(texts)
    if pa.types.is_binary(kind):
        return pa.array(_unescaped(texts.to_pylist()), kind)
    return texts.cast(pa.string()).cast(kind)


def _booleans(texts: pa.Array) -> pa.Array:
    is_true = pc.equal(texts, pa.scalar(b"t", texts.type))
    is_known = pc.or_(is_true, pc.equal(texts, pa.scalar(b"f", texts.type)))
    if not pc.all(is_known, min_count=0).as_py():
        msg = "neither t nor f"
        raise ValueError(msg)
    return is_true


def _unescaped(texts: Sequence[bytes | None]) -> list[bytes | None]:
    return [None if text is None else _bytes_of(text) for text in texts]


def _bytes_of(text: bytes) -> bytes:
    if not text.startswith(b"\\x"):
        msg = "bytes that are not written as \\x and digits"
        raise ValueError(msg)
    return bytes.fromhex(text[2:].decode("ascii"))
