"""Rows as a database takes them: the text of COPY, or values to bind, and a hash of each row.

Both forms are made column by column with Arrow; Python sees single values only for binary and nested columns.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.model.schema import Field, Schema
from millstream.records.codecs import batch_to_rows

HASHES = 2**63
"""Row hashes, and their sums, are below this."""

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_NULL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_json = msgspec.json.Encoder(decimal_format="string")


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Rows on their way into a table, with each as a line of COPY text without its end."""

    table: pa.Table
    lines: pa.Array

    def __len__(self) -> int:
        return len(self.lines)

    def part(self, start: int, count: int) -> Rows:
        """Some of them, in their order."""
        return Rows(self.table.slice(start, count), self.lines.slice(start, count))

    def hashes(self) -> pa.Array:
        """A hash of each row, equal for equal rows."""
        blake = hashlib.blake2b
        digests = b"".join([blake(line, digest_size=8).digest() for line in self.lines.cast(pa.binary()).to_pylist()])
        return pa.array((np.frombuffer(digests, np.uint64) >> np.uint64(1)).astype(np.int64))

    def copy_text(self, *before: pa.Array) -> memoryview:
        """The rows as COPY reads them, behind columns of our own."""
        first = [column.cast(pa.string()) for column in before]
        lines = pc.binary_join_element_wise(*first, self.lines, "\t")
        ended = pc.binary_join_element_wise(lines, "", "\n")
        offsets = np.frombuffer(ended.buffers()[1], np.int32)
        return memoryview(ended.buffers()[2])[: int(offsets[len(ended)])]


def rows_of(batches: Sequence[pa.RecordBatch], schema: Schema) -> Rows:
    """Encode batches that have the schema's columns."""
    table = pa.Table.from_batches(batches, schema.arrow).combine_chunks()
    cells = [_copied(table.column(field.name), field) for field in schema]
    lines = pc.binary_join_element_wise(*cells, "\t", null_handling="replace", null_replacement="\\N")
    return Rows(table, _one(lines))


def checksum_of(hashes: pa.Array) -> int:
    """The sum of hashes: the same for the same rows in any order."""
    high, low = pc.shift_right(hashes, 32), pc.bit_wise_and(hashes, 0xFFFFFFFF)
    return joined_checksum(pc.sum(high).as_py(), pc.sum(low).as_py())


def joined_checksum(high: int, low: int) -> int:
    """A sum of hashes from the sums of their halves, which no database overflows on."""
    return (high * 2**32 + low) % HASHES


def _copied(column: pa.ChunkedArray, field: Field) -> pa.Array:
    """A column as COPY text, null where it is null."""
    if pa.types.is_binary(field.type):
        return pa.array([None if raw is None else "\\\\x" + raw.hex() for raw in column.to_pylist()], pa.string())
    text = cell_text(column, field)
    if pa.types.is_string(field.type) or pa.types.is_nested(field.type):
        for special, written in _ESCAPES:
            text = pc.replace_substring(text, special, written)
    return _one(text)


def cell_text(column: pa.ChunkedArray, field: Field) -> pa.Array:
    """A column that is not binary as plain text: ISO times, digits, and JSON for what is nested."""
    if pa.types.is_nested(field.type):
        return _json_text(column, field)
    return _one(column.cast(pa.string()))


def bound(column: pa.ChunkedArray, field: Field) -> list[Any]:
    """A column as values for SQLite, which has no NaN: it is kept as the text `NaN`."""
    if pa.types.is_floating(field.type):
        return ["NaN" if value is not None and math.isnan(value) else value for value in column.to_pylist()]
    if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type) or pa.types.is_binary(field.type):
        return list(column.to_pylist())
    return list(cell_text(column, field).to_pylist())


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _json_text(column: pa.ChunkedArray, field: Field) -> pa.Array:
    values = [row["value"] for row in batch_to_rows(pa.table({"value": column}))]
    if "double" in field.type_name or "float" in field.type_name:
        values = [_without_nan(value) for value in values]
    return pa.array([None if value is None else _json.encode(value).decode() for value in values], pa.string())


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become the texts that JSON sources read back."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    return [_without_nan(each) for each in value] if isinstance(value, list) else value


def refuse_nul(batch: pa.RecordBatch, schema: Schema, *, step: str, first: int) -> None:
    """PostgreSQL text cannot hold the character NUL; say where it is instead of failing in the middle of a COPY."""
    for field in schema:
        column = batch.column(field.name)
        if pa.types.is_string(field.type):
            place = pc.index(pc.match_substring(column, "\0"), value=True).as_py()
        elif pa.types.is_nested(field.type):
            texts = cell_text(pa.chunked_array([column]), field).to_pylist()
            place = next((n for n, text in enumerate(texts) if text and _NULL_IN_JSON.search(text)), -1)
        else:
            continue
        if place >= 0:
            msg = f"column {field.name!r} of row {first + place} holds the character NUL, which PostgreSQL cannot store"
            hint = "remove it before the sink, for example with a map step"
            raise StepFailed(msg, code="JDBC-011", step=step, found=repr(column[place].as_py()), hint=hint)


def refuse_null_keys(batch: pa.RecordBatch, keys: Sequence[str], *, step: str, first: int) -> None:
    """A null identifies no row: two of them would never replace each other."""
    for key in keys:
        if batch.column(key).null_count:
            row = first + pc.index(pc.is_null(batch.column(key)), value=True).as_py()
            msg = f"key column {key!r} of row {row} is null"
            hint = "filter such rows out before the sink, or choose other keys="
            raise StepFailed(msg, code="JDBC-012", step=step, hint=hint)
