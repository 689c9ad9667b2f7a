"""Messages that are changes of a table: rows with, where columns ask for it, what the envelope says about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from millstream.connectors.formats.debezium.envelope import Asked, Envelopes, TableChange
from millstream.connectors.formats.debezium.rows import TableRows
from millstream.connectors.formats.instants import instants
from millstream.connectors.formats.message import REFUSED, Decoded, in_halves, interleaved, placed
from millstream.connectors.formats.text_columns import Part, check_no_nulls
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema


class DebeziumMessages:
    """Rows of one table. A message without a value says nothing: it follows a delete, for the compaction of the topic."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self._schema = schema
        self._asked: Mapping[str, Asked] = options["envelope"]
        self._envelopes = Envelopes(self._asked, skips_truncates=options["truncates"] == "skip")
        self._rows = TableRows(Schema(tuple(field for field in schema if field.name not in self._asked)), options)
        self._before = {
            name: TableRows(_inside(schema[name]), options) for name, part in self._asked.items() if part == "before"
        }

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        changes: list[TableChange] = []
        places: list[int] = []
        bad: dict[int, BadRecord] = {}
        for place, value in enumerate(values):
            change = None if value is None else self._envelopes.change(value)
            if isinstance(change, TableChange):
                changes.append(change)
                places.append(place)
            elif change is not None:
                bad[place] = BadRecord("", change)
        parts = in_halves(changes, self._whole, self._few) if self._rows.is_plain else self._few(changes)
        if len(changes) == len(values):
            return placed(parts, values, range(len(values)))
        ordered = interleaved([(np.array(places, np.int64), parts), (np.array([*bad], np.int64), bad.values())])
        return placed(ordered, values, np.array(sorted([*places, *bad]), np.int64))

    def _whole(self, changes: Sequence[TableChange]) -> pa.RecordBatch:
        return self._with_envelope(self._rows.whole([change.row for change in changes]), changes)

    def _few(self, changes: Sequence[TableChange]) -> Iterator[Part]:
        position = 0
        for part in self._rows.by_record([change.row for change in changes]):
            if isinstance(part, BadRecord):
                yield part
                position += 1
                continue
            yield from self._enveloped(part, changes[position : position + part.num_rows])
            position += part.num_rows

    def _enveloped(self, rows: pa.RecordBatch, changes: Sequence[TableChange]) -> Iterator[Part]:
        try:
            yield self._with_envelope(rows, changes)
        except REFUSED as problem:
            if len(changes) == 1:
                yield BadRecord("", str(problem))
                return
            for place, change in enumerate(changes):
                yield from self._enveloped(rows.slice(place, 1), [change])

    def _with_envelope(self, rows: pa.RecordBatch, changes: Sequence[TableChange]) -> pa.RecordBatch:
        columns = {name: rows.column(name) for name in rows.schema.names}
        for name, part in self._asked.items():
            columns[name] = self._column(self._schema[name], part, changes)
        batch = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema.arrow)
        check_no_nulls(batch, self._schema)
        return batch

    def _column(self, field: Field, part: Asked, changes: Sequence[TableChange]) -> pa.Array:
        match part:
            case "op":
                return pa.array([change.kind.value for change in changes], field.type)
            case "before":
                return _structs(self._before[field.name], field, [change.before for change in changes])
            case "ts":
                numbers = pa.array([change.ts for change in changes], pa.int64())
                return instants(numbers, "ms", field.type) if pa.types.is_timestamp(field.type) else numbers
            case "lsn":
                return pa.array([change.lsn for change in changes], field.type)


def _inside(field: Field) -> Schema:
    return Schema(tuple(Field(each.name, each.type) for each in field.type))


def _structs(rows: TableRows, field: Field, texts: Sequence[bytes | None]) -> pa.Array:
    """Rows as structs; null where there is no text.

    Raises:
        ValueError: a text is bad.
    """
    there = [text for text in texts if text is not None]
    parts = list(in_halves(there, rows.whole, rows.by_record) if rows.is_plain else rows.by_record(there))
    if bad := next((part for part in parts if isinstance(part, BadRecord)), None):
        msg = f"column {field.name!r}: {bad.error}"
        raise ValueError(msg)
    numbers = iter(range(len(there)))
    places = pa.array([None if text is None else next(numbers) for text in texts], pa.int64())
    made = pa.concat_batches(parts).to_struct_array() if parts else pa.nulls(0, field.type)
    return made.cast(field.type).take(places)
