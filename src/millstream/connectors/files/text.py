"""Reads json lines and csv in chunks: each chunk by Arrow, or record by record when Arrow refuses it.

So one bad line costs the speed of its chunk, becomes a bad record, and takes nothing else with it. Both ways read every
value alike: what Arrow takes, reading by record takes too, and to the same value.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pyarrow as pa

from millstream.connectors.files.columns import fitted, missing_column
from millstream.connectors.formats import csv_rows, json_lines
from millstream.connectors.formats.decode import BadMessage, MessageDecoder
from millstream.connectors.formats.text_columns import Part
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.schema import Schema

_CHUNK = 8 << 20
_REFUSED = (pa.ArrowException, ValueError, ArithmeticError)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def json_parts(stream: pa.NativeFile, schema: Schema, *, start: int = 0, end: int = 0) -> Iterator[Part]:
    """Rows of json lines; with `end`, of the lines that begin in those bytes of a seekable file."""
    for lines in _line_chunks(stream, start, end):
        try:
            parts: list[Part] = list(json_lines.by_arrow(lines, schema))
        except _REFUSED:
            parts = list(_by_record(lines, schema))
        yield from parts


def _by_record(chunk: bytes, schema: Schema) -> Iterator[Part]:
    return json_lines.by_record(_lines(chunk), schema, lambda line: next(json_lines.by_arrow(line, schema)))


def message_parts(stream: pa.NativeFile, messages: MessageDecoder, *, start: int = 0, end: int = 0) -> Iterator[Part]:
    """Rows of lines that are messages; the bytes are as in `json_parts`."""
    for chunk in _line_chunks(stream, start, end):
        for part in messages.decode(_lines(chunk)):
            if isinstance(part, BadMessage):
                yield BadRecord(part.raw.decode("utf-8", "replace"), part.error)
            else:
                yield part.rows


def _lines(chunk: bytes) -> list[bytes]:
    return [line for line in chunk.split(b"\n") if line.strip()]


def _line_chunks(stream: pa.NativeFile, start: int, end: int) -> Iterator[bytes]:
    chunks = _chunks(stream, quoted=False) if not end else _byte_range(stream, start, end)
    for number, chunk in enumerate(chunks):
        yield chunk.removeprefix(_BYTE_ORDER_MARK) if number == start == 0 else chunk


def csv_parts(stream: pa.NativeFile, schema: Schema, *, header: bool, delimiter: str) -> Iterator[Part]:
    """Rows of csv. With a header columns go by name, without one they are the schema's in order."""
    _refuse_nested(schema)
    names = list(schema.names)
    for number, chunk in enumerate(_chunks(stream, quoted=True)):
        rows = chunk.removeprefix(_BYTE_ORDER_MARK) if number == 0 else chunk
        if number == 0 and header:
            names, rows = _header(rows, delimiter)
            _check_columns(names, schema)
        try:
            batches = csv_rows.by_arrow(rows, schema, names, delimiter)
            parts: list[Part] = [fitted(batch, schema, {}) for batch in batches]
        except _REFUSED:
            parts = list(csv_rows.by_record(rows, schema, names, delimiter))
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


def _header(chunk: bytes, delimiter: str) -> tuple[list[str], bytes]:
    # As latin-1 every byte is a character, so that rows which are not UTF-8 stay bytes until they are read.
    lines = io.StringIO(chunk.decode("latin-1"), newline="")
    names = next(csv.reader(lines, delimiter=delimiter), [])
    return [name.encode("latin-1").decode("utf-8") for name in names], lines.read().encode("latin-1")


def _check_columns(names: list[str], schema: Schema) -> None:
    for field in schema:
        if not field.nullable and field.name not in names:
            raise missing_column(field, names)


def _refuse_nested(schema: Schema) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        msg = "csv holds no nested columns"
        raise InvalidSchema(msg, code="FILES-023", found=", ".join(nested), hint="use format='json' or 'parquet'")
