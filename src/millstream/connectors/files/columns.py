"""Fits what a file holds to the schema asked for: columns by name, canonical types, partition folders, nulls."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.cells import cell_value
from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.schema import Field, Schema
from millstream.model.types import type_name
from millstream.records.codecs import batch_to_rows

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"""[\x00-\x1f"#%'*/:=?\\{}\[\]^\x7f]""")


def fitted(batch: pa.RecordBatch, schema: Schema, partition: Mapping[str, str | None]) -> pa.RecordBatch:
    """The schema's columns of a batch, in order and of the schema's types."""
    arrays = [_column(batch, field, partition) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def checked_nulls(batch: pa.RecordBatch, schema: Schema) -> Iterator[pa.RecordBatch | BadRecord]:
    """The batch, without rows that have a null where none may be; those come first, as bad records."""
    required = [field.name for field in schema if not field.nullable and batch.column(field.name).null_count]
    if not required:
        yield batch
        return
    good = batch.column(required[0]).is_valid()
    for name in required[1:]:
        good = pc.and_(good, batch.column(name).is_valid())
    for row in batch_to_rows(batch.filter(pc.invert(good))):
        names = ", ".join(repr(name) for name in required if row[name] is None)
        yield BadRecord(json.dumps(row, default=str), f"column {names} is null or missing")
    yield batch.filter(good)


def _column(batch: pa.RecordBatch, field: Field, partition: Mapping[str, str | None]) -> pa.Array:
    position = batch.schema.get_field_index(field.name)
    if position >= 0:
        return _cast(batch.column(position), field)
    if field.name in partition:
        return _constant(partition[field.name], field, batch.num_rows)
    if field.nullable:
        return pa.nulls(batch.num_rows, field.type)
    raise missing_column(field, batch.schema.names)


def missing_column(field: Field, present: list[str]) -> InvalidSchema:
    """The error for a file without a column that may not be null."""
    msg = f"column {field.name!r} is not in the file and may not be null"
    return InvalidSchema(msg, code="FILES-020", known=present, hint="correct the schema, or let the column be null")


def _cast(column: pa.Array, field: Field) -> pa.Array:
    if column.type == field.type:
        return column
    if not _is_compatible(column.type, field.type):
        raise _incompatible(column.type, field)
    # Files may hold nanoseconds; ours are microseconds.
    options = pc.CastOptions.safe(field.type)
    options.allow_time_truncate = True
    try:
        return pc.cast(column, options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise _incompatible(column.type, field, str(problem)) from problem


def _incompatible(stored: pa.DataType, field: Field, why: str = "") -> InvalidSchema:
    msg = f"column {field.name!r} of the file does not fit the schema"
    detail = f"{stored} ({why})" if why else str(stored)
    return InvalidSchema(msg, code="FILES-021", found=detail, known=field.type_name, hint="correct the schema")


def _is_compatible(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps the meaning; Arrow would also turn numbers into text and back."""
    if pa.types.is_dictionary(stored):
        return _is_compatible(stored.value_type, wanted)
    if pa.types.is_null(stored):
        return True
    if pa.types.is_nested(stored) or pa.types.is_nested(wanted):
        return bool(pa.types.is_nested(stored) and pa.types.is_nested(wanted))
    return _family(stored) == _family(wanted)


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "bytes" if "binary" in str(kind) else str(kind)


def _constant(text: str | None, field: Field, length: int) -> pa.Array:
    value = None if text is None else cell_value(text, field.type)
    batch = next(iter(batches_from_json([{field.name: value}], Schema((field,)))))
    if isinstance(batch, BadRecord):
        msg = f"the folder of column {field.name!r} does not fit the schema"
        raise InvalidSchema(msg, code="FILES-022", found=repr(text), known=field.type_name, hint="correct the schema")
    return pa.repeat(batch.column(0)[0], length)


def partition_of(path: str) -> dict[str, str | None]:
    """The columns that folders of a path name: `day=2024-05-01/part-1.parquet`."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, is_pair, value = part.partition("=")
        if is_pair:
            values[urllib.parse.unquote(name)] = None if value == NULL_FOLDER else urllib.parse.unquote(value)
    return values


def folder_name(name: str, value: str | None) -> str:
    """The folder of one partition value; `partition_of` reads it back."""
    if value is None:
        return f"{_escaped(name)}={NULL_FOLDER}"
    if value == NULL_FOLDER:
        return f"{_escaped(name)}=%5F{NULL_FOLDER[1:]}"
    return f"{_escaped(name)}={_escaped(value)}"


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", text)


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of the type can stand in a csv cell or name a folder."""
    return not pa.types.is_nested(kind) and type_name(kind) != "binary"
