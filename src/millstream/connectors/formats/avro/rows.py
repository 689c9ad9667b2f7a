"""Rows of Avro messages of one writer: in blocks where polars can read them, and else message by message."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from millstream.connectors.formats.avro.blocks import wire_table
from millstream.connectors.formats.avro.branches import has_strange_branches, has_unions
from millstream.connectors.formats.avro.columns import row_reading
from millstream.connectors.formats.avro.schema import AvroType
from millstream.connectors.formats.message import REFUSED, in_halves
from millstream.connectors.formats.text_columns import Part, check_no_nulls
from millstream.contract.source import BadRecord
from millstream.model.schema import Schema

_SIFTED = 2048
"""Messages that are sifted rather than read in two halves."""
_UNREADABLE = (ValueError, EOFError, TypeError, OverflowError, RecursionError)
_STRANGE = "a union has a branch that its type does not have"


class AvroRows:
    """Reads messages of one writer's schema into the columns of ours.

    Which messages are good, polars decides for all schemas it can read: so a message means the same in every block.
    """

    def __init__(self, writer: AvroType, schema: Schema) -> None:
        self._schema = schema
        self._reading = row_reading(writer, schema)
        self._wanted = {found[0]: found[1].arrow for found in self._reading.columns.values() if found is not None}
        fields = [{"name": name, "type": kind} for name, kind in self._reading.wire.items()]
        self._wire = fastavro.parse_schema({"type": "record", "name": "message", "fields": fields})
        self._has_unions = any(has_unions(kind) for kind in self._reading.wire.values())

    def parts(self, bodies: Sequence[bytes]) -> Iterator[Part]:
        """Rows and bad records in the order of the messages."""
        return in_halves(bodies, self._whole, self._sifted, at_most=_SIFTED)

    def _sifted(self, bodies: Sequence[bytes]) -> Iterator[Part]:
        """Rows of messages one of which is bad: blocks of those that fastavro can read, the others each alone.

        Fastavro says what is wrong with a message, where polars panics, and for every panic writes to the log of the process.
        """
        together: list[bytes] = []
        for body in bodies:
            if isinstance(self._values(body), dict):
                together.append(body)
                continue
            yield from in_halves(together, self._whole, self._singly)
            yield from self._singly([body])
            together = []
        yield from in_halves(together, self._whole, self._singly)

    def _singly(self, bodies: Sequence[bytes]) -> Iterator[Part]:
        for body in bodies:
            try:
                yield self._whole([body])
            except REFUSED as problem:
                found = self._values(body)
                yield BadRecord(body, f"not Avro of this schema: {problem if isinstance(found, dict) else found}")

    def _whole(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        columns = self._by_polars(bodies) if self._reading.is_simple else self._by_fastavro(bodies)
        if self._has_unions and has_strange_branches(bodies, self._reading.wire):
            raise ValueError(_STRANGE)
        arrays = [
            pa.nulls(len(bodies), field.type) if found is None else found[1].convert(columns[found[0]])
            for field, found in zip(self._schema, self._reading.columns.values(), strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        check_no_nulls(batch, self._schema)
        return batch

    def _by_polars(self, bodies: Sequence[bytes]) -> dict[str, pa.Array]:
        table = wire_table(bodies, self._reading.wire, [*self._wanted])
        return {name: table.column(name).combine_chunks() for name in self._wanted}

    def _by_fastavro(self, bodies: Sequence[bytes]) -> dict[str, pa.Array]:
        found = [self._values(body) for body in bodies]
        rows = [row for row in found if isinstance(row, dict)]
        if len(rows) != len(found):
            msg = "a message cannot be read"
            raise ValueError(msg)
        return {name: pa.array([row[name] for row in rows], kind) for name, kind in self._wanted.items()}

    def _values(self, body: bytes) -> dict[str, Any] | str:
        """The fields of one message, or what is wrong with it."""
        stream = io.BytesIO(body)
        try:
            found: Any = fastavro.schemaless_reader(stream, self._wire, None)
        except IndexError:
            return _STRANGE
        except _UNREADABLE as problem:
            return str(problem) or "it ends too early"
        left = len(body) - stream.tell()
        return f"{left} bytes are left behind it" if left else found
