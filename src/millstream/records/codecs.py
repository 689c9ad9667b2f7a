"""Between Python rows, Arrow batches and Arrow IPC bytes. Rows are dicts; batches have exactly a schema's columns."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import InvalidSchema
from millstream.model.schema import Field, Schema
from millstream.model.time import likely_unit

Row = dict[str, Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_NAIVE = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamp_ntz values have no zone
_FAILED = (pa.ArrowException, TypeError, ValueError, OverflowError)
_PLAIN_TIMES = frozenset({dt.datetime, type(None)})


def batch_to_ipc(rows: pa.RecordBatch | pa.Table) -> bytes:
    """An Arrow IPC stream of the rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def table_from_ipc(data: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def batch_to_text(rows: pa.RecordBatch | pa.Table) -> str:
    """An Arrow IPC stream as text, for JSON values."""
    return base64.b64encode(batch_to_ipc(rows)).decode("ascii")


def table_from_text(text: str) -> pa.Table:
    """The rows of `batch_to_text`."""
    return table_from_ipc(base64.b64decode(text))


def batch_to_rows(batch: pa.RecordBatch | pa.Table) -> list[Row]:
    """Rows as dicts: maps become dicts, timestamps become datetimes in UTC."""
    if batch.num_columns == 0:
        return [{} for _ in range(batch.num_rows)]
    return _rows_builder(tuple(batch.schema.names))(_columns(batch))


def batch_to_tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Rows as tuples of the same values as in `batch_to_rows`."""
    return list(zip(*_columns(batch), strict=True))


def shown_rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows for people: as `batch_to_rows`, with timestamps that no datetime can hold as microseconds since 1970."""
    try:
        return batch_to_rows(batch)
    except InvalidSchema:
        return [_shown(batch.slice(place, 1)) for place in range(batch.num_rows)]


def _shown(row: pa.RecordBatch) -> Row:
    numbered = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and not _are_datetimes(column) else column
        for column in row.columns
    ]
    return batch_to_rows(pa.RecordBatch.from_arrays(numbered, names=row.schema.names))[0]


def _are_datetimes(column: pa.Array) -> bool:
    try:
        _values(column)
    except OverflowError:
        return False
    return True


def _columns(batch: pa.RecordBatch | pa.Table) -> list[list[Any]]:
    try:
        return [_values(column) for column in batch.columns]
    except OverflowError:
        named = zip(batch.schema.names, batch.columns, strict=True)
        name, column = next((name, column) for name, column in named if not _are_datetimes(column))
        msg = f"column {name!r} holds a timestamp outside the years 1 to 9999, which is all that a datetime holds"
        raise InvalidSchema(
            msg,
            code="SCHEMA-020",
            found=_extremes(column),
            hint="filter such rows before, or correct the unit in which they are read",
        ) from None


def _extremes(column: pa.Array | pa.ChunkedArray) -> str:
    if not pa.types.is_timestamp(column.type):
        return str(column.type)
    bounds = pc.min_max(column.cast(pa.int64())).as_py()
    return f"{bounds['min']} to {bounds['max']} microseconds since 1970"


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values that came from a column of this type as such a column again."""
    return _converted(list(values), kind)


def rows_to_batch(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.RecordBatch:
    """A batch of the rows; a missing field is null.

    Integers in a timestamp column are milliseconds since 1970.

    Raises:
        InvalidSchema: a row has an unknown field, lacks one that may not be null, or holds a value of another type;
            the error names the column, what was expected, what was found, and the row.
    """
    arrays = []
    absent = 0
    for field in schema:
        name = field.name
        try:
            values = [row[name] for row in rows]
        except KeyError:
            values = [row.get(name) for row in rows]
            absent += sum(name not in row for row in rows)
        arrays.append(_array(values, field))
    if sum(map(len, rows)) + absent != len(rows) * len(schema):
        _refuse_unknown(rows, schema)
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow) if arrays else _no_columns(len(rows))


def _no_columns(length: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))


@functools.lru_cache(maxsize=256)
def _rows_builder(names: tuple[str, ...]) -> Callable[[list[list[Any]]], list[Row]]:
    """A function from columns to rows. A dict display with constant keys is twice as fast as `dict(zip(...))`."""
    variables = [f"v{position}" for position in range(len(names))]
    pairs = ", ".join(f"{name!r}: {variable}" for name, variable in zip(names, variables, strict=True))
    source = f"lambda columns: [{{{pairs}}} for ({', '.join(variables)},) in zip(*columns)]"
    builder: Callable[[list[list[Any]]], list[Row]] = eval(source, {"zip": zip})
    return builder


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values of a column; the types whose scalar objects make `to_pylist` slow go through numpy."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _times(column, _EPOCH if kind.tz else _EPOCH_NAIVE)
    if pa.types.is_date32(kind) or pa.types.is_decimal(kind):
        return list(column.to_numpy(zero_copy_only=False).tolist())
    if pa.types.is_map(kind):
        return _dicts(column)
    if pa.types.is_nested(kind):
        return list(column.to_pylist(maps_as_pydicts="strict"))
    return list(column.to_pylist())


def _dicts(column: pa.MapArray) -> list[Any]:
    offsets = column.offsets.to_pylist()
    first, length = offsets[0], offsets[-1] - offsets[0]
    # The children of a sliced map are whole, so offsets count from their start.
    keys, items = _values(column.keys.slice(first, length)), _values(column.items.slice(first, length))
    spans = [(start - first, end - first) for start, end in itertools.pairwise(offsets)]
    rows: list[Any] = [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in spans]
    if column.null_count:
        valid = column.is_valid().to_pylist()
        rows = [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]
    return rows


def _times(column: pa.Array, epoch: dt.datetime) -> list[Any]:
    """Adding numpy's timedeltas is about thirty times faster than a scalar object for each timestamp."""
    numbers = column.cast(pa.int64())
    deltas = numbers.fill_null(0).to_numpy().view("m8[us]").tolist()
    if not numbers.null_count:
        return [epoch + delta for delta in deltas]
    valid = numbers.is_valid().to_pylist()
    return [epoch + delta if is_valid else None for delta, is_valid in zip(deltas, valid, strict=True)]


def _array(values: list[Any], field: Field) -> pa.Array:
    try:
        array = _converted(values, field.type)
    except _FAILED:
        _refuse_value(values, field)
    if array.null_count and not field.nullable:
        index = values.index(None)
        msg = f"column {field.name!r} of row {index} is null or missing"
        raise InvalidSchema(
            msg, code="SCHEMA-007", found="null", known=f"{field.type_name} not null", hint="give every row a value"
        )
    return array


def _converted(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return _times_array(values, kind)
    if pa.types.is_integer(kind) and float in set(map(type, values)):
        # Arrow cuts 2.5 to 2 without a word.
        msg = "fraction in an integer column"
        raise TypeError(msg)
    return pa.array(values, kind)


def _times_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    types = set(map(type, values))
    if types <= _PLAIN_TIMES:
        epoch = _EPOCH if kind.tz else _EPOCH_NAIVE
        try:
            deltas = [None if value is None else value - epoch for value in values]
        except TypeError:
            return pa.array(values, kind)  # a zone where none is expected or the reverse: Arrow takes UTC
        return pa.array(deltas, pa.duration("us")).view(pa.int64()).view(kind)
    if bool in types:
        msg = "boolean in a timestamp column"
        raise TypeError(msg)
    if int in types:
        values = [value * 1000 if isinstance(value, int) else value for value in values]
    return pa.array(values, kind)


def _refuse_value(values: list[Any], field: Field) -> NoReturn:
    index, refused = next((i, value) for i, value in enumerate(values) if not _is_accepted(value, field.type))
    if pa.types.is_timestamp(field.type) and type(refused) is int:
        msg = f"column {field.name!r} of row {index} has a number that is no instant"
        raise InvalidSchema(
            msg,
            code="SCHEMA-021",
            found=f"{refused}{likely_unit(refused)}",
            known="milliseconds since 1970",
            hint="correct the unit",
        ) from None
    msg = f"column {field.name!r} of row {index} has a value of another type"
    raise InvalidSchema(
        msg,
        code="SCHEMA-006",
        found=f"{refused!r} ({type(refused).__name__})",
        known=field.type_name,
        hint="convert the value or change the schema",
    ) from None


def _is_accepted(value: Any, kind: pa.DataType) -> bool:
    try:
        _converted([value], kind)
    except _FAILED:
        return False
    return True


def _refuse_unknown(rows: Sequence[Mapping[str, Any]], schema: Schema) -> NoReturn:
    names = set(schema.names)
    index, extra = next((i, row.keys() - names) for i, row in enumerate(rows) if row.keys() - names)
    msg = f"row {index} has fields that are not in the schema"
    raise InvalidSchema(
        msg,
        code="SCHEMA-008",
        found=", ".join(sorted(map(str, extra))),
        known=list(schema.names),
        hint="remove them or add them to the schema",
    )
