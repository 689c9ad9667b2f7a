"""Rows of json texts: all at once by Arrow, or record by record.

Both ways read every value alike: what Arrow takes, reading by record takes too, and to the same value.
"""

from __future__ import annotations

import decimal
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from millstream.connectors.formats.text_columns import Part, check_utf8, typed_batches
from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.model.schema import Field, Schema

_NULL_AFTER_OBJECT = re.compile(rb"\}\s*null")
_UNPARSED = (ValueError, ArithmeticError, RecursionError)
_EXAMPLES = 100
"""Records that are looked at for a value that is not null."""


def by_arrow(chunk: bytes, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a chunk of lines at once.

    Raises:
        ValueError: a record is bad, or is good and Arrow cannot read it.
    """
    if not chunk.strip():
        return
    records = _lines_in_braces(chunk)
    table = _parsed(chunk, schema)
    if table.num_rows != records:
        msg = "records are not one in a line"
        raise ValueError(msg)
    yield from typed_batches(table, schema)


def _parsed(chunk: bytes, schema: Schema) -> pa.Table:
    """What Arrow makes of a chunk in which every line is in braces; times and bytes are not yet converted."""
    check_utf8(chunk)
    if b"null" in chunk and _NULL_AFTER_OBJECT.search(chunk):
        # Arrow ends the process at a record that is null, so records other than objects never reach it.
        msg = "null behind a record"
        raise ValueError(msg)
    first = chunk.split(b"\n", _EXAMPLES)[:_EXAMPLES]
    times = first_values(first, {field.name for field in schema if pa.types.is_timestamp(field.type)})
    wanted = pa.schema([pa.field(field.name, _parsed_type(field, times)) for field in schema])
    parse = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    return pa.json.read_json(pa.BufferReader(chunk), parse_options=parse)


def _are_in_braces(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> bool:
    """Whether each of those lines begins with `{` and ends with `}`, and none is empty.

    No json value goes on from such a line into the next: a comma or a colon would have to stand between them, and no line ends
    inside a string. So if there are as many objects as lines in all, each line is one object.
    """
    if not (begins < ends).all():
        return False
    return bool((data[begins] == ord("{")).all() and (data[ends - 1] == ord("}")).all())


def _lines_in_braces(chunk: bytes) -> int:
    """How many lines there are in which a record stands; a line that is no object is refused."""
    data = np.frombuffer(chunk, np.uint8)
    breaks = np.flatnonzero(data == ord("\n"))
    ends = breaks if chunk.endswith(b"\n") else np.append(breaks, len(chunk))
    begins = np.concatenate([[0], ends[:-1] + 1])
    if _are_in_braces(data, begins, ends - (data[ends - 1] == ord("\r"))):
        return len(ends)
    records = [line for line in map(bytes.strip, chunk.split(b"\n")) if line]
    if not all(record.startswith(b"{") and record.endswith(b"}") for record in records):
        msg = "a record is not an object"
        raise ValueError(msg)
    return len(records)


def first_values(records: Iterable[bytes], wanted: Set[str]) -> Mapping[str, Any]:
    """The first value of each column wanted that is not null, in the first of the records."""
    found: dict[str, Any] = {}
    for record in itertools.islice(records, _EXAMPLES):
        if len(found) == len(wanted):
            break
        try:
            values = json.loads(record)
        except _UNPARSED:
            continue
        if isinstance(values, dict):
            found |= {name: values[name] for name in wanted - found.keys() if values.get(name) is not None}
    return found


def _parsed_type(field: Field, times: Mapping[str, Any]) -> pa.DataType:
    """How Arrow shall read a column: times as they come, for it reads only some forms of them itself."""
    if pa.types.is_timestamp(field.type):
        return pa.int64() if isinstance(times.get(field.name), int) else pa.string()
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


def by_record(
    records: Iterable[bytes],
    schema: Schema,
    alone: Callable[[bytes], pa.RecordBatch],
    *,
    ignore_extra: bool = True,
    mend: Callable[[Any], Any] | None = None,
) -> Iterator[Part]:
    """The rows of good records, and a bad record for each of the others, in the order of the records.

    Args:
        records: one json text each.
        schema: the columns wanted.
        alone: reads one record by Arrow, for those at which only Python fails.
        ignore_extra: whether to pass over fields that are not in the schema.
        mend: makes of a record what our json has for it.
    """
    parse = _parser(schema)
    rows: list[Any] = []
    raw = []
    for record in records:
        raw.append(record.decode("utf-8", "replace"))
        try:
            row = parse(record.decode("utf-8"))
        except _UNPARSED as problem:
            read = _alone(record, alone, problem)
            if read is None:
                rows.append(BadRecord(raw[-1], f"not json: {problem}"))
                continue
            raw.pop()
            yield from batches_from_json(rows, schema, raw=raw, ignore_extra=ignore_extra)
            yield read
            rows, raw = [], []
        else:
            rows.append(row if mend is None else _mended(row, mend, raw[-1]))
    yield from batches_from_json(rows, schema, raw=raw, ignore_extra=ignore_extra)


def _mended(row: Any, mend: Callable[[Any], Any], raw: str) -> Any:
    try:
        return mend(row)
    except (TypeError, ValueError, ArithmeticError) as problem:
        return BadRecord(raw, str(problem))


def _alone(record: bytes, read: Callable[[bytes], pa.RecordBatch], problem: Exception) -> pa.RecordBatch | None:
    """The row of a record at which only Python fails: nested deeper, or with `Inf` for a number, or one of many digits."""
    if isinstance(problem, UnicodeDecodeError):
        return None
    if isinstance(problem, json.JSONDecodeError) and b"Inf" not in record:
        return None
    try:
        return read(record)
    except (pa.ArrowException, ValueError):
        return None


def _parser(schema: Schema) -> Callable[[str], Any]:
    """Reads a record so that no number loses a digit before its column's type is known."""
    has_singles = "float" in schema.ddl
    exact = decimal.Decimal if has_singles or "decimal" in schema.ddl else float
    safe_digits = 7 if has_singles else 15

    def integer(text: str) -> Any:
        # Python has no negative zero among its integers, and Arrow rounds none that a float cannot hold.
        return int(text) if len(text) <= safe_digits and text != "-0" else decimal.Decimal(text)

    return json.JSONDecoder(parse_float=exact, parse_int=integer).decode
