"""Typed rows from JSON values: what a value looks like for each column type, and what is wrong with one that does not.

Timestamps are ISO text or milliseconds since 1970, dates ISO text, decimals text or numbers, binary base64 text, and
maps objects whose keys are text.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.schema import Schema
from millstream.model.types import type_name
from millstream.records.codecs import rows_to_batch

Decoder = Callable[[Any], Any]

_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]+")
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def batches_from_json(
    rows: Sequence[Any], schema: Schema, *, raw: Sequence[str] | None = None, ignore_extra: bool = False
) -> Iterator[pa.RecordBatch | BadRecord]:
    """Batches of the good rows and a `BadRecord` for each bad one, in the order of the rows.

    Args:
        rows: JSON objects; a `BadRecord` among them is passed on.
        schema: the columns wanted.
        raw: the text of each row as it came in; without it, the row as JSON.
        ignore_extra: whether to pass over fields that are not in the schema; else they make a row bad.
    """
    decoders = {field.name: decoder(field.type, ignore_extra=ignore_extra) for field in schema}
    good: list[tuple[int, Mapping[str, Any]]] = []

    def text(index: int) -> str:
        return json.dumps(rows[index], default=str) if raw is None else raw[index]

    for index, row in enumerate(rows):
        outcome = row if isinstance(row, BadRecord) else _decoded(row, decoders, schema, ignore_extra=ignore_extra)
        if isinstance(outcome, Mapping):
            good.append((index, outcome))
            continue
        yield from _batches(good, schema, text)
        good = []
        yield outcome if isinstance(outcome, BadRecord) else BadRecord(text(index), outcome)
    yield from _batches(good, schema, text)


def _batches(
    rows: list[tuple[int, Mapping[str, Any]]], schema: Schema, text: Callable[[int], str]
) -> Iterator[pa.RecordBatch | BadRecord]:
    """Rows as one batch; when one of them does not fit, halves of them, so that a bad row costs little."""
    if not rows:
        return
    try:
        batch = rows_to_batch([row for _, row in rows], schema)
    except InvalidSchema as problem:
        if len(rows) == 1:
            yield BadRecord(text(rows[0][0]), _reason(problem))
            return
    else:
        yield batch
        return
    middle = len(rows) // 2
    yield from _batches(rows[:middle], schema, text)
    yield from _batches(rows[middle:], schema, text)


def _reason(problem: InvalidSchema) -> str:
    # A bad row is found by converting it alone, so its row number says nothing.
    text = problem.message.replace(" of row 0", "").replace("row 0 has", "record has")
    parts = [
        text,
        f"found {problem.found}" if problem.found else "",
        f"known: {problem.known}" if problem.known else "",
    ]
    return "; ".join(part for part in parts if part)


def _decoded(
    row: Any, decoders: Mapping[str, Decoder | None], schema: Schema, *, ignore_extra: bool
) -> Mapping[str, Any] | str:
    """The row with values that Arrow takes, or what is wrong with it."""
    if not isinstance(row, Mapping):
        return f"record is not an object; found {row!r}"
    values = {name: row[name] for name in row if name in decoders} if ignore_extra else dict(row)
    for name, decode in decoders.items():
        value = values.get(name)
        if value is None or decode is None:
            continue
        try:
            values[name] = decode(value)
        except (TypeError, ValueError, ArithmeticError) as problem:
            known = type_name(schema[name].type)
            return f"column {name!r} has a value of another type; found {value!r}: {problem}; known: {known}"
    return values


@functools.lru_cache(maxsize=512)
def decoder(kind: pa.DataType, *, ignore_extra: bool = False) -> Decoder | None:
    """What turns a JSON value that is not null into one that Arrow takes for this type; `None` when it already is."""
    for holds, decode in _SIMPLE:
        if holds(kind):
            return decode
    if pa.types.is_timestamp(kind):
        return _aware_time if kind.tz else _naive_time
    if pa.types.is_list(kind):
        return _list_decoder(_inner(kind.value_type, ignore_extra=ignore_extra))
    if pa.types.is_map(kind):
        return _map_decoder(_key_decoder(kind.key_type), _inner(kind.item_type, ignore_extra=ignore_extra))
    if pa.types.is_struct(kind):
        fields = {field.name: _inner(field.type, ignore_extra=ignore_extra) for field in kind}
        return _struct_decoder(fields, ignore_extra=ignore_extra)
    return None


def _inner(kind: pa.DataType, *, ignore_extra: bool) -> Decoder:
    """What decodes a part of a value, which may be null."""
    decode = _nullable(decoder(kind, ignore_extra=ignore_extra))
    if not pa.types.is_timestamp(kind):
        return decode

    def instant(value: Any) -> Any:
        # Milliseconds of a whole column are told apart where it is made; inside a value Arrow takes them for microseconds.
        made = decode(value)
        return made * 1000 if isinstance(made, int) and not isinstance(made, bool) else made

    return instant


def _list_decoder(item: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        return [item(each) for each in _checked(value, list)]

    return decode


def _map_decoder(key: Decoder, item: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        return [(key(name), item(each)) for name, each in _checked(value, dict).items()]

    return decode


def _struct_decoder(fields: dict[str, Decoder], *, ignore_extra: bool) -> Decoder:
    def decode(value: Any) -> Any:
        unknown = sorted(_checked(value, dict).keys() - fields.keys())
        if unknown and not ignore_extra:
            msg = f"unknown fields {', '.join(unknown)}; known: {', '.join(fields)}"
            raise ValueError(msg)
        return {name: fields[name](each) for name, each in value.items() if name in fields}

    return decode


def _nullable(decode: Decoder | None) -> Decoder:
    if decode is None:
        return lambda value: value
    return lambda value: None if value is None else decode(value)


def _key_decoder(kind: pa.DataType) -> Decoder:
    """Keys of JSON objects are text, whatever the key type."""
    if pa.types.is_integer(kind):
        return _whole_key
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_boolean(kind):
        return _boolean_key
    return decoder(kind) or str


def _whole_key(text: Any) -> Any:
    if not _WHOLE_NUMBER.fullmatch(str(text)):
        msg = f"the key {text!r} is not a whole number"
        raise ValueError(msg)
    return int(text)


def _boolean_key(text: Any) -> Any:
    if text not in _BOOLEANS:
        msg = f"the key {text!r} is neither true nor false"
        raise ValueError(msg)
    return _BOOLEANS[text]


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        msg = f"not a JSON {'object' if kind is dict else 'array'}"
        raise TypeError(msg)
    return value


def _aware_time(value: Any) -> Any:
    if isinstance(value, str):
        instant = dt.datetime.fromisoformat(value)
        return instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)
    return round(value) if isinstance(value, (float, decimal.Decimal)) else value


def _naive_time(value: Any) -> Any:
    return dt.datetime.fromisoformat(value) if isinstance(value, str) else _aware_time(value)


def _date(value: Any) -> Any:
    if not isinstance(value, str):
        msg = "not a date such as '2024-05-01'"
        raise TypeError(msg)
    return dt.date.fromisoformat(value)


def _decimal(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, decimal.Decimal)):
        msg = "not a number"
        raise TypeError(msg)
    try:
        return decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        msg = "not a number"
        raise ValueError(msg) from None


def _float(value: Any) -> Any:
    if isinstance(value, bool):
        msg = "not a number"
        raise TypeError(msg)
    if isinstance(value, decimal.Decimal):
        return float(value)
    return _FLOATS.get(value, value) if isinstance(value, str) else value


def _single(value: Any) -> Any:
    # From its digits, not by way of a double, which would round it twice.
    is_exact = isinstance(value, decimal.Decimal)
    return pa.scalar(str(value)).cast(pa.float32()).as_py() if is_exact else _float(value)


def _bytes(value: Any) -> Any:
    text = value.get("__ms_bytes") if isinstance(value, Mapping) else value
    if not isinstance(text, str):
        msg = "not base64 text"
        raise TypeError(msg)
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        msg = f"not base64 text: {problem}"
        raise ValueError(msg) from None


def _integer(value: Any) -> Any:
    is_whole = isinstance(value, (float, decimal.Decimal)) and value == value // 1
    if isinstance(value, decimal.Decimal) and not is_whole:
        # Arrow refuses a float here, and cuts a decimal off.
        msg = "not a whole number"
        raise ValueError(msg)
    return int(value) if is_whole else value


_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], Decoder], ...] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_float32, _single),
    (pa.types.is_floating, _float),
    (pa.types.is_binary, _bytes),
)
