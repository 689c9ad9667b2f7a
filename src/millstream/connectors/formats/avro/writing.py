"""From columns to Avro messages of a given schema, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats import big_endian
from millstream.connectors.formats.avro.pieces import (
    Pieces,
    constant,
    contents,
    fixed,
    grouped,
    side_by_side,
    sized,
    spread,
    varint,
    varints,
)
from millstream.connectors.formats.avro.schema import AvroType
from millstream.model.schema import Schema
from millstream.model.types import type_name

Write = Callable[[pa.Array], Pieces]


def row_writing(writer: AvroType, schema: Schema) -> Callable[[pa.RecordBatch], Pieces]:
    """What writes batches as messages; of a schema that is no record, the only column is written.

    Raises:
        ValueError: the schema lacks a column, has a field that is none and may not be null, or a type that does not fit.
    """
    if writer.kind != "record":
        (field,) = schema
        only = _column(writer, field.type, field.name)
        return lambda batch: only(batch.column(0))
    write = _struct(writer, pa.struct([pa.field(field.name, field.type) for field in schema]), "")
    return lambda batch: write(batch.to_struct_array())


def _column(writer: AvroType, kind: pa.DataType, path: str) -> Write:
    """What writes a column that may have nulls."""
    inner = writer.without_null
    write = _value(inner or writer, kind, path)
    if write is None:
        msg = f"column {path!r} is {type_name(kind)}, which is not written as {(inner or writer).name}"
        raise ValueError(msg)
    return _required(write, path) if inner is None else _optional(write, writer)


def _required(write: Write, path: str) -> Write:
    def checked(column: pa.Array) -> Pieces:
        if column.null_count:
            msg = f"column {path!r} is null, which the Avro schema does not allow"
            raise ValueError(msg)
        return write(column)

    return checked


def _optional(write: Write, writer: AvroType) -> Write:
    null_first = writer.parts[0].kind == "null"
    null, there = (varint(0)[0], varint(1)[0]) if null_first else (varint(1)[0], varint(0)[0])

    def optional(column: pa.Array) -> Pieces:
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        marks = np.where(is_there, there, null).astype(np.uint8)
        return side_by_side([fixed(marks), spread(write(column.drop_null()), is_there)])

    return optional


def _value(writer: AvroType, kind: pa.DataType, path: str) -> Write | None:
    """What writes a column without nulls; `None` where its type does not fit."""
    match writer.kind:
        case "record" if pa.types.is_struct(kind):
            return _struct(writer, kind, f"{path}.")
        case "array" if pa.types.is_list(kind):
            return _array(_column(writer.parts[0], kind.value_type, f"{path}[]"))
        case "map" if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            pair = AvroType("record", fields=(("key", AvroType("string")), ("value", writer.parts[0])))
            return _map(pair, kind, path)
        case "array" if pa.types.is_map(kind) and [name for name, _ in writer.parts[0].fields] == ["key", "value"]:
            return _map(writer.parts[0], kind, path)
        case "bytes" | "string" | "fixed":
            return _bytes(writer, kind)
    return _number(writer, kind)


def _struct(writer: AvroType, kind: pa.StructType, path: str) -> Write:
    names = [field.name for field in kind]
    if unknown := sorted(set(names) - {name for name, _ in writer.fields}):
        msg = f"column {path + unknown[0]!r} is not in the Avro schema"
        raise ValueError(msg)
    chosen = [
        (name, _column(part, kind.field(name).type, path + name) if name in names else _absent(part, path + name))
        for name, part in writer.fields
    ]

    def write(column: pa.Array) -> Pieces:
        fields = [each(column.field(name) if name in names else column) for name, each in chosen]
        return side_by_side(fields) if fields else constant(b"", len(column))

    return write


def _absent(writer: AvroType, path: str) -> Write:
    """What writes null for a field that is no column."""
    kinds = [part.kind for part in writer.parts]
    if writer.kind != "null" and "null" not in kinds:
        msg = f"field {path!r} of the Avro schema is no column and may not be null"
        raise ValueError(msg)
    null = b"" if writer.kind == "null" else varint(kinds.index("null"))
    return lambda column: constant(null, len(column))


def _array(item: Write) -> Write:
    def write(column: pa.Array) -> Pieces:
        counts = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return _blocks(item(column.flatten()), counts)

    return write


def _map(pair: AvroType, kind: pa.MapType, path: str) -> Write:
    (_, key), (_, item) = pair.fields
    write_key, write_item = _column(key, kind.key_type, f"{path}[key]"), _column(item, kind.item_type, f"{path}[]")

    def write(column: pa.Array) -> Pieces:
        offsets = column.offsets.to_numpy().astype(np.int64)
        first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys, items = column.keys.slice(first, length), column.items.slice(first, length)
        return _blocks(side_by_side([write_key(keys), write_item(items)]), np.diff(offsets))

    return write


def _blocks(items: Pieces, counts: np.ndarray) -> Pieces:
    """Arrays: how many items and the items, if there are any, and a zero."""
    heads = spread(varints(counts[counts > 0]), counts > 0)
    return side_by_side([heads, grouped(items, counts), constant(b"\0", len(counts))])


def _bytes(writer: AvroType, kind: pa.DataType) -> Write | None:
    if pa.types.is_decimal(kind) or writer.logical == "decimal":
        return _decimal(writer, kind) if pa.types.is_decimal(kind) and writer.logical == "decimal" else None
    if writer.kind == "fixed":
        return _fixed_bytes(writer.size) if pa.types.is_binary(kind) else None
    is_text = pa.types.is_string(kind) or (pa.types.is_binary(kind) and writer.kind == "bytes")
    return (lambda column: sized(contents(column))) if is_text else None


def _decimal(writer: AvroType, kind: pa.DataType) -> Write:
    wide = pa.decimal128(38, writer.scale)

    def write(column: pa.Array) -> Pieces:
        column = column if kind.scale == writer.scale else column.cast(wide)
        if writer.kind == "fixed":
            return fixed(big_endian.wide_digits(column, writer.size))
        return sized(Pieces(*big_endian.digits(column)))

    return write


def _fixed_bytes(size: int) -> Write:
    def write(column: pa.Array) -> Pieces:
        pieces = contents(column)
        if (pieces.lengths != size).any():
            msg = f"bytes of another length than {size}"
            raise ValueError(msg)
        return pieces

    return write


def _number(writer: AvroType, kind: pa.DataType) -> Write | None:
    """Numbers, and what is written as one."""
    match writer.kind:
        case "boolean" if pa.types.is_boolean(kind):
            return lambda column: fixed(column.to_numpy(zero_copy_only=False))
        case "enum" if pa.types.is_string(kind):
            return _symbols(writer.symbols)
        case "int" if pa.types.is_date(kind) and writer.logical == "date":
            return lambda column: _whole(column.cast(pa.int32()))
        case "long" if pa.types.is_timestamp(kind) and "timestamp" in writer.logical:
            return _instants(writer.logical.rpartition("-")[2])
        case "int" | "long" if writer.is_time:
            return None
        case "int" | "long" if pa.types.is_integer(kind) and (writer.kind == "long" or kind.bit_width < 64):
            return _whole
        case "float" | "double" if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            is_narrower = writer.kind == "float" and pa.types.is_float64(kind)
            width = np.float32 if writer.kind == "float" else np.float64
            return None if is_narrower else lambda column: fixed(column.to_numpy(zero_copy_only=False).astype(width))
    return None


def _whole(column: pa.Array) -> Pieces:
    return varints(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _symbols(names: Sequence[str]) -> Write:
    known = pa.array(names, pa.string())

    def write(column: pa.Array) -> Pieces:
        places = pc.index_in(column, known)
        if places.null_count:
            other = column.filter(places.is_null())[0].as_py()
            msg = f"{other!r} is none of the symbols {', '.join(names)}"
            raise ValueError(msg)
        return _whole(places)

    return write


def _instants(unit: str) -> Write:
    """Instants in the unit of the schema; what is finer is cut off."""

    def write(column: pa.Array) -> Pieces:
        micros = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if unit == "nanos":
            return varints(pc.multiply_checked(column.cast(pa.int64()), 1000).to_numpy(zero_copy_only=False))
        return varints(micros // 1000 if unit == "millis" else micros)

    return write
