"""Fits what a database gave to the schema: whole columns at once; a value that does not fit makes its row a bad record."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.json_values import decoder
from millstream.contract.source import BadRecord
from millstream.model.schema import Field, Schema
from millstream.model.types import type_name

Convert = Callable[[pa.Array], pa.Array]

_MICROSECOND = dt.timedelta(microseconds=1)
_BEGIN = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
_OUTSIDE = "a time outside the years 1 to 9999, or an infinite one"
_SEVERAL = "an array of several dimensions"
_UNFIT = (pa.ArrowException, ValueError, TypeError, ArithmeticError)


def fitted(
    table: pa.Table, schema: Schema, origin: Callable[[Mapping[str, str]], str]
) -> Iterator[pa.RecordBatch | BadRecord]:
    """Batches with the schema's columns, and bad records for rows that do not fit it.

    Args:
        table: the schema's columns in order, and behind them guards: columns that are true where a row cannot be read.
        schema: the columns wanted.
        origin: says where a row stands, by its values as text.
    """
    for batch in table.to_batches():
        columns, problems = [], {}
        for place, field in enumerate(schema):
            column, found = _fitted_column(_storage(batch.column(place)), field)
            columns.append(column)
            problems.update({row: f"column {field.name!r} holds {why}" for row, why in found.items()})
        for guard in batch.columns[len(schema) :]:
            problems.update({row: _SEVERAL for row in pc.indices_nonzero(guard).to_pylist()})
        good = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
        if problems:
            yield from _bad_records(batch, schema, problems, origin)
            good = good.take(pa.array([row for row in range(len(good)) if row not in problems], pa.int64()))
        if good.num_rows:
            yield good


def _fitted_column(column: pa.Array, field: Field) -> tuple[pa.Array, dict[int, str]]:
    convert = _converter(column.type, field.type)
    problems: dict[int, str] = {}
    try:
        array = convert(column)
    except _UNFIT:
        pieces = list(_halved(column, convert, field.type, 0, problems))
        array = pa.concat_arrays(pieces)
    if not field.nullable and array.null_count > len(problems):
        nulls = pc.indices_nonzero(array.is_null()).to_pylist()
        problems |= {row: "null, which it may not" for row in nulls if row not in problems}
    return array, problems


def _halved(
    column: pa.Array, convert: Convert, wanted: pa.DataType, first: int, problems: dict[int, str]
) -> Iterator[pa.Array]:
    """The column in pieces that can be converted, with nulls in place of the values that cannot be."""
    try:
        array = convert(column)
    except _UNFIT as problem:
        array = None
        if len(column) == 1:
            why = _OUTSIDE if str(problem) == _OUTSIDE else f"{_shown(column[0])}, which is no {type_name(wanted)}"
            problems[first] = why
            array = pa.nulls(1, wanted)
    if array is not None:
        yield array
        return
    middle = len(column) // 2
    yield from _halved(column.slice(0, middle), convert, wanted, first, problems)
    yield from _halved(column.slice(middle), convert, wanted, first + middle, problems)


def _converter(found: pa.DataType, wanted: pa.DataType) -> Convert:
    if _is_text(found) and pa.types.is_nested(wanted):
        return lambda column: _from_json(column, wanted)
    if pa.types.is_boolean(wanted) and pa.types.is_integer(found):
        return _truth
    if _is_temporal(wanted) or (pa.types.is_list(wanted) and _is_temporal(wanted.value_type)):
        return lambda column: _within_the_calendar(column.cast(wanted))
    return lambda column: column if column.type == wanted else column.cast(wanted)


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _truth(column: pa.Array) -> pa.Array:
    if pc.any(pc.not_equal(pc.multiply(column, column), column)).as_py():
        msg = "neither 0 nor 1"
        raise ValueError(msg)
    return column.cast(pa.bool_())


def _within_the_calendar(column: pa.Array) -> pa.Array:
    """Databases know years that Python does not, and their drivers give the infinite as some number."""
    values = column.flatten() if pa.types.is_list(column.type) else column
    unit = dt.timedelta(days=1) if pa.types.is_date(values.type) else _MICROSECOND
    numbers = values.view(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    ends = pc.min_max(numbers).as_py()
    first, last = (_FIRST - _BEGIN) // unit, (_LAST - _BEGIN) // unit
    if ends["min"] is not None and not (first <= ends["min"] and ends["max"] <= last):
        raise ValueError(_OUTSIDE)
    return column


def _from_json(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    decode = decoder(wanted)
    assert decode is not None, "nested values are decoded"
    texts = (None if text is None else json.loads(text, parse_float=decimal.Decimal) for text in column.to_pylist())
    return pa.array([None if value is None else decode(value) for value in texts], wanted)


def _bad_records(
    batch: pa.RecordBatch, schema: Schema, problems: Mapping[int, str], origin: Callable[[Mapping[str, str]], str]
) -> Iterator[BadRecord]:
    for row in sorted(problems):
        values = {field.name: _shown(batch.column(place)[row]) for place, field in enumerate(schema)}
        yield BadRecord(json.dumps(values), problems[row], origin(values))


def _shown(value: Any) -> str:
    """A value as text, also one that Python has no value for."""
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):
        return "out of range"
