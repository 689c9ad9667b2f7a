"""Rows of a piece of json lines: all at once by Arrow, or record by record."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from millstream.connectors.files.text_columns import Part, check_utf8, typed_batches
from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.model.schema import Field, Schema

_OTHER_THAN_OBJECT = re.compile(rb"^[ \t\r]*[^{\s]", re.MULTILINE)
_NULL_AFTER_OBJECT = re.compile(rb"\}\s*null")
_UNPARSED = (ValueError, ArithmeticError, RecursionError)


def by_arrow(chunk: bytes, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows at once.

    Raises:
        ValueError: a record is bad, or is good and Arrow cannot read it.
    """
    if not chunk.strip():
        return
    check_utf8(chunk)
    _check_objects(chunk)
    example = _first_record(chunk)
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema([pa.field(field.name, _parsed_type(field, example)) for field in schema]),
        unexpected_field_behavior="ignore",
    )
    table = pa.json.read_json(pa.BufferReader(chunk), parse_options=options)
    _check_one_per_line(chunk, table.num_rows)
    yield from typed_batches(table, schema)


def _check_objects(chunk: bytes) -> None:
    """Arrow ends the process at a record that is null, so records other than objects never reach it."""
    if not _begin_all_with_brace(chunk) and _OTHER_THAN_OBJECT.search(chunk):
        msg = "a record is not an object"
        raise ValueError(msg)
    if b"null" in chunk and _NULL_AFTER_OBJECT.search(chunk):
        msg = "null behind a record"
        raise ValueError(msg)


def _begin_all_with_brace(chunk: bytes) -> bool:
    """Whether every line does; much faster than a search, and so with nearly all files."""
    data = np.frombuffer(chunk, np.uint8)
    begins = np.flatnonzero(data[:-1] == ord("\n")) + 1
    return chunk.startswith(b"{") and bool((data[begins] == ord("{")).all())


def _check_one_per_line(chunk: bytes, rows: int) -> None:
    """Arrow also takes several records in a line, and one in several lines; read by record those are bad."""
    if rows != _lines(chunk) and rows != sum(1 for line in chunk.split(b"\n") if line.strip()):
        msg = "records are not one in a line"
        raise ValueError(msg)


def _lines(chunk: bytes) -> int:
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _first_record(chunk: bytes) -> Any:
    try:
        return json.loads(chunk.split(b"\n", 1)[0])
    except _UNPARSED:
        return None


def _parsed_type(field: Field, example: Any) -> pa.DataType:
    """How Arrow shall read a column: times as they come, for it reads only some forms of them itself."""
    if pa.types.is_timestamp(field.type):
        value = example.get(field.name) if isinstance(example, dict) else None
        return pa.int64() if isinstance(value, int) else pa.string()
    if pa.types.is_date(field.type) or pa.types.is_binary(field.type):
        return pa.string()
    if not _is_readable(field.type):
        msg = "Arrow does not read this type from json"
        raise ValueError(msg)
    return field.type


def _is_readable(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_readable(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_readable(field.type) for field in kind)
    if pa.types.is_temporal(kind):
        return False
    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind))


def by_record(chunk: bytes, schema: Schema) -> Iterator[Part]:
    """The rows of good records, and a bad record for each of the others."""
    parse = _parser(schema)
    rows: list[Any] = []
    raw = []
    for line in chunk.split(b"\n"):
        if not line.strip():
            continue
        raw.append(line.decode("utf-8", "replace"))
        try:
            rows.append(parse(line.decode("utf-8")))
        except _UNPARSED as problem:
            alone = _alone(line, schema, problem)
            if alone is None:
                rows.append(BadRecord(raw[-1], f"not json: {problem}"))
                continue
            raw.pop()
            yield from batches_from_json(rows, schema, raw=raw, ignore_extra=True)
            yield alone
            rows, raw = [], []
    yield from batches_from_json(rows, schema, raw=raw, ignore_extra=True)


def _alone(line: bytes, schema: Schema, problem: Exception) -> pa.RecordBatch | None:
    """The row of a record at which only Python fails: nested deeper, or with `Inf` for a number, or one of many digits."""
    if isinstance(problem, UnicodeDecodeError):
        return None
    if isinstance(problem, json.JSONDecodeError) and b"Inf" not in line:
        return None
    try:
        return next(by_arrow(line, schema))
    except (pa.ArrowException, ValueError):
        return None


def _parser(schema: Schema) -> Callable[[str], Any]:
    """Reads a line so that no number loses a digit before its column's type is known."""
    has_singles = "float" in schema.ddl
    exact = decimal.Decimal if has_singles or "decimal" in schema.ddl else float
    safe_digits = 7 if has_singles else 15

    def integer(text: str) -> Any:
        # Python has no negative zero among its integers, and Arrow rounds none that a float cannot hold.
        return int(text) if len(text) <= safe_digits and text != "-0" else decimal.Decimal(text)

    return json.JSONDecoder(parse_float=exact, parse_int=integer).decode
