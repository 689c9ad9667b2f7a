"""Rows as changes: envelopes with op, before and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats import json_text
from millstream.connectors.formats.debezium.envelope import LETTERS, Asked
from millstream.errors import InvalidSchema
from millstream.model.change import ChangeKind
from millstream.model.connector import Options
from millstream.model.schema import Schema

_LETTER_OF = {kind.value: letter for letter, kind in LETTERS.items()}


def debezium_encoder(schema: Schema, options: Options) -> Callable[[pa.RecordBatch], pa.Array]:
    """Write envelopes; what a column has of one goes there, and a row is an insert where no column says what it is."""
    asked: Mapping[str, Asked] = options["envelope"]
    by_part = {part: name for name, part in asked.items()}
    table = [name for name in schema.names if name not in asked]

    def encode(batch: pa.RecordBatch) -> pa.Array:
        def part(name: Asked) -> pa.Array | None:
            return batch.column(by_part[name]) if name in by_part else None

        rows = json_text.messages(batch.select(table)).to_pylist()
        parts = (
            rows,
            _kinds(part("op"), batch),
            _befores(part("before"), batch),
            _sources(part("ts"), part("lsn"), batch),
        )
        return pa.array([_envelope(*each) for each in zip(*parts, strict=True)], pa.binary())

    return encode


def _kinds(column: pa.Array | None, batch: pa.RecordBatch) -> list[str]:
    return [ChangeKind.INSERT] * batch.num_rows if column is None else list(column.to_pylist())


def _befores(column: pa.StructArray | None, batch: pa.RecordBatch) -> list[bytes | None]:
    if column is None:
        return [None] * batch.num_rows
    rows = pa.RecordBatch.from_arrays(column.flatten(), names=[field.name for field in column.type])
    texts = json_text.messages(rows).to_pylist()
    return [text if is_there else None for text, is_there in zip(texts, column.is_valid().to_pylist(), strict=True)]


def _sources(ts: pa.Array | None, lsn: pa.Array | None, batch: pa.RecordBatch) -> list[bytes]:
    """The part of each envelope that says when and where the change was made, if columns do."""
    if ts is None and lsn is None:
        return [b""] * batch.num_rows
    if ts is not None and pa.types.is_timestamp(ts.type):
        ts = pc.divide(ts.cast(pa.int64()), 1000)
    numbers = [[None] * batch.num_rows if column is None else column.to_pylist() for column in (ts, lsn)]
    return [
        b',"source":%b' % json.dumps({"ts_ms": at, "lsn": place}).encode() for at, place in zip(*numbers, strict=True)
    ]


def _envelope(row: bytes, kind: str, before: bytes | None, source: bytes) -> bytes:
    letter = _LETTER_OF.get(kind)
    if letter is None:
        msg = "a row whose column of kinds holds none"
        raise InvalidSchema(msg, code="FORMAT-007", found=repr(kind), known=[*_LETTER_OF], hint="correct the column")
    before, after = (row, b"null") if kind == ChangeKind.DELETE else (before or b"null", row)
    return b'{"before":%b,"after":%b%b,"op":"%b"}' % (before, after, source, letter.encode())
