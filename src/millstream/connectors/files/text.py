"""Reads json lines and csv in chunks: each chunk by Arrow, or record by record when Arrow refuses it.

So one bad line costs the speed of its chunk, becomes a bad record, and takes nothing else with it.
"""

from __future__ import annotations

import csv
import decimal
import io
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from millstream.connectors.files.columns import cell_value, fitted, missing_column
from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.schema import Field, Schema

_CHUNK = 8 << 20
_REFUSED = (pa.ArrowException, ValueError)

Part: TypeAlias = pa.RecordBatch | BadRecord


def json_parts(stream: pa.NativeFile, schema: Schema, *, start: int = 0, end: int = 0) -> Iterator[Part]:
    """Rows of json lines; with `end`, of the lines that begin in those bytes of a seekable file."""
    lines = _chunks(stream, quoted=False) if not end else _byte_range(stream, start, end)
    for chunk in lines:
        try:
            parts: list[Part] = list(_fast_json(chunk, schema))
        except _REFUSED:
            parts = list(_slow_json(chunk, schema))
        yield from parts


def csv_parts(stream: pa.NativeFile, schema: Schema, *, header: bool, delimiter: str) -> Iterator[Part]:
    """Rows of csv. With a header columns go by name, without one they are the schema's in order."""
    _refuse_nested(schema)
    names = list(schema.names)
    for number, chunk in enumerate(_chunks(stream, quoted=True)):
        if number == 0 and header:
            names, chunk = _header(chunk, delimiter)  # noqa: PLW2901 - the rest of the chunk
            _check_columns(names, schema)
        try:
            parts: list[Part] = list(_fast_csv(chunk, schema, names, delimiter))
        except _REFUSED:
            parts = list(_slow_csv(chunk, schema, names, delimiter))
        yield from parts


def _chunks(stream: pa.NativeFile, *, quoted: bool) -> Iterator[bytes]:
    """Pieces of whole records; in csv a newline between quotes ends none."""
    rest = b""
    while data := stream.read(_CHUNK):
        rest += data
        cut = rest.rfind(b"\n") + 1
        while quoted and cut and rest.count(b'"', 0, cut) % 2:
            cut = rest.rfind(b"\n", 0, cut - 1) + 1
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _byte_range(file: pa.NativeFile, start: int, end: int) -> Iterator[bytes]:
    """Lines whose first byte lies in the range: the one running into it belongs to the range before."""
    position = start
    if start:
        position = _after_newline(file, start - 1)
    while position < end:
        stop = _after_newline(file, min(position + _CHUNK, end) - 1)
        file.seek(position)
        yield file.read(stop - position)
        position = stop


def _after_newline(file: pa.NativeFile, position: int) -> int:
    """The position behind the first newline at or after a position, or the end of the file."""
    file.seek(position)
    while data := file.read(65_536):
        newline = int(data.find(b"\n"))
        if newline >= 0:
            return position + newline + 1
        position += len(data)
    return position


def _fast_json(chunk: bytes, schema: Schema) -> Iterator[pa.RecordBatch]:
    if not chunk.strip():
        return
    first = json.loads(chunk.split(b"\n", 1)[0])
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema([pa.field(f.name, _parsed_type(f, first)) for f in schema]),
        unexpected_field_behavior="ignore",
    )
    table = pa.json.read_json(pa.BufferReader(chunk), parse_options=options)
    yield from _typed(table, schema)


def _parsed_type(field: Field, example: Any) -> pa.DataType:
    """How Arrow shall read a column: times as they come, for it reads only some forms of them itself."""
    if pa.types.is_timestamp(field.type):
        value = example.get(field.name) if isinstance(example, dict) else None
        return pa.int64() if isinstance(value, int) else pa.string()
    if pa.types.is_date(field.type):
        return pa.string()
    if pa.types.is_binary(field.type) or not _is_readable(field.type):
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


def _typed(table: pa.Table, schema: Schema) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=131_072):
        for position, field in enumerate(schema):
            column = batch.column(position)
            if column.type != field.type:
                batch = batch.set_column(position, field.name, _times(column, field.type))  # noqa: PLW2901
        yield batch


def _times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(column.type):
        return pc.multiply_checked(column, 1000).cast(kind)
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return column.cast(kind)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us")).cast(kind)  # without a zone: UTC


def _slow_json(chunk: bytes, schema: Schema) -> Iterator[Part]:
    exact = decimal.Decimal if "decimal" in schema.ddl else float
    rows: list[Any] = []
    lines = [line.decode("utf-8", "replace") for line in chunk.split(b"\n") if line.strip()]
    for line in lines:
        try:
            rows.append(json.loads(line, parse_float=exact))
        except ValueError as problem:
            rows.append(BadRecord(line, f"not json: {problem}"))
    yield from batches_from_json(rows, schema, raw=lines, ignore_extra=True)


def _header(chunk: bytes, delimiter: str) -> tuple[list[str], bytes]:
    text = chunk.decode("utf-8-sig")
    lines = io.StringIO(text, newline="")
    names = next(csv.reader(lines, delimiter=delimiter), [])
    return names, lines.read().encode()


def _check_columns(names: list[str], schema: Schema) -> None:
    for field in schema:
        if not field.nullable and field.name not in names:
            raise missing_column(field, names)


def _fast_csv(chunk: bytes, schema: Schema, names: list[str], delimiter: str) -> Iterator[pa.RecordBatch]:
    if not chunk.strip():
        return
    if any(pa.types.is_binary(field.type) for field in schema):
        msg = "Arrow does not read base64"
        raise ValueError(msg)
    kinds = {f.name: pa.string() if pa.types.is_timestamp(f.type) else f.type for f in schema if f.name in names}
    table = pa.csv.read_csv(
        pa.BufferReader(chunk),
        read_options=pa.csv.ReadOptions(column_names=names),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for batch in _typed(table, schema.select(kinds)):
        yield fitted(batch, schema, {})


def _slow_csv(chunk: bytes, schema: Schema, names: list[str], delimiter: str) -> Iterator[Part]:
    kinds = {name: schema[name].type for name in names if name in schema}
    rows: list[Any] = []
    raw = []
    for cells in csv.reader(io.StringIO(chunk.decode("utf-8", "replace"), newline=""), delimiter=delimiter):
        if not cells:
            continue
        raw.append(delimiter.join(cells))
        if len(cells) != len(names):
            rows.append(BadRecord(raw[-1], f"{len(cells)} csv columns where {len(names)} were expected"))
            continue
        pairs = ((name, cell) for name, cell in zip(names, cells, strict=True) if name in kinds)
        rows.append({name: _cell(cell, kinds[name]) for name, cell in pairs})
    yield from batches_from_json(rows, schema, raw=raw)


def _cell(text: str, kind: pa.DataType) -> Any:
    # Python's reader does not tell "" from nothing; nothing is what unquoted empty cells mean.
    return None if text == "" else cell_value(text, kind)


def _refuse_nested(schema: Schema) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        msg = "csv holds no nested columns"
        raise InvalidSchema(msg, code="FILES-023", found=", ".join(nested), hint="use format='json' or 'parquet'")
