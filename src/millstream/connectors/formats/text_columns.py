"""Columns that Arrow has read as text or as numbers, turned into the times and bytes that they stand for."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from millstream.contract.source import BadRecord
from millstream.model.schema import Schema

Part: TypeAlias = pa.RecordBatch | BadRecord
"""Rows of consecutive records, or what is wrong with one."""

_ROWS_PER_BATCH = 131_072
_FIRST_DAY = dt.date(1, 1, 1)
_FIRST_INSTANT = dt.datetime(1, 1, 1, tzinfo=dt.UTC)


def check_utf8(data: bytes) -> None:
    """Refuse bytes that are no UTF-8: Arrow passes them on as text that nothing behind it can read."""
    pa.scalar(data, pa.binary()).cast(pa.string())


def typed_batches(table: pa.Table, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a table whose columns are the schema's, each of the schema's type.

    Raises:
        ValueError: a text stands for no value of its column.
    """
    for batch in table.to_batches(max_chunksize=_ROWS_PER_BATCH):
        yield typed(batch, schema)


def typed(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """One batch, in the same way."""
    for position, field in enumerate(schema):
        column = converted(batch.column(position), field.type)
        batch = batch.set_column(position, field.name, column)
    return batch


def single_batch(table: pa.Table, schema: Schema, rows: int) -> pa.RecordBatch:
    """The one batch of a table that must have so many rows, typed, without a null where none may be.

    Raises:
        ValueError: the table is not so; which row is to blame is for others to find out.
    """
    batches = table.to_batches()
    if table.num_rows != rows or len(batches) != 1:
        msg = f"{table.num_rows} rows from {rows} records"
        raise ValueError(msg)
    batch = typed(batches[0], schema)
    check_no_nulls(batch, schema)
    return batch


def check_no_nulls(batch: pa.RecordBatch, schema: Schema) -> None:
    """Refuse nulls where none may be."""
    for field in schema:
        if not field.nullable and batch.column(field.name).null_count:
            msg = f"column {field.name!r} is null or missing"
            raise ValueError(msg)


def converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of text or numbers as what it stands for in a column of the type.

    Raises:
        ValueError: a text stands for nothing there.
    """
    if pa.types.is_date(kind):
        return _within_the_calendar(column.cast(kind), pa.scalar(_FIRST_DAY, kind))
    if column.type == kind:
        if "decimal" in str(kind):
            column.validate(full=True)  # Arrow reads more digits than the type has
        return column
    if pa.types.is_binary(kind):
        texts = column.to_pylist()
        return pa.array([None if text is None else base64.b64decode(text, validate=True) for text in texts], kind)
    if pa.types.is_integer(column.type):
        return pc.multiply_checked(column, 1000).cast(kind)
    first = _FIRST_INSTANT if kind.tz else _FIRST_INSTANT.replace(tzinfo=None)
    return _within_the_calendar(_instants(column, kind), pa.scalar(first, kind))


def _instants(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind.tz is None:
        return column.cast(kind)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us")).cast(kind)  # without a zone: UTC


def _within_the_calendar(column: pa.Array, first: pa.Scalar) -> pa.Array:
    """Arrow knows a year 0 and Python does not; a text of that year is no time."""
    if pc.any(pc.less(column, first)).as_py():
        msg = "a time before the year 1"
        raise ValueError(msg)
    return column
