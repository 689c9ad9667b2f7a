"""Batches of events: any range of event numbers, of one kind or of all in an envelope."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.nexmark.draws import Numbers
from millstream.connectors.nexmark.rows import Auctions, Bids, EventRows, Persons
from millstream.connectors.nexmark.timeline import Timeline, kinds_of, timeline_of
from millstream.connectors.ranges import pieces
from millstream.model.schema import Schema

PIECE = 65_536
"""Events per batch: their columns stay near the processor while they are computed."""
_KINDS: dict[str, type[Persons] | type[Auctions] | type[Bids]] = {"person": Persons, "auction": Auctions, "bid": Bids}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Generates the events of a seed on a timeline."""

    seed: int
    timeline: Timeline

    def batches(self, kind: str, schema: Schema, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The events from number `first` up to `end` that are of a kind, with the columns and types of the schema."""
        made = self._envelope if kind == "all" else self._flat
        for low, high in pieces({"first": first, "end": end}, PIECE):
            batch = made(kind, schema.arrow, self.timeline.ids(low, high))
            if batch.num_rows:
                yield batch

    def _flat(self, kind: str, schema: pa.Schema, ids: Numbers) -> pa.RecordBatch:
        arrays = self._columns(kind, schema.names, ids[kinds_of(ids) == list(_KINDS).index(kind)])
        return pa.RecordBatch.from_arrays(_cast(arrays, schema), schema=schema)

    def _columns(self, kind: str, names: Sequence[str], ids: Numbers) -> list[pa.Array]:
        rows = _KINDS[kind](self.seed, self.timeline, ids)
        return [rows.COLUMNS[name](rows) for name in names]

    def _envelope(self, _: str, schema: pa.Schema, ids: Numbers) -> pa.RecordBatch:
        kinds, rows = kinds_of(ids), EventRows(self.seed, self.timeline, ids)
        made = {"event_type": lambda: pa.array(kinds), "dateTime": rows.date_time, "event_id": rows.event_id}
        arrays = [
            made[field.name]() if field.name in made else self._struct(field.name, field.type, ids, kinds)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(_cast(arrays, schema), schema=schema)

    def _struct(self, kind: str, fields: pa.StructType, ids: Numbers, kinds: Numbers) -> pa.Array:
        """A struct per event, null where the event is of another kind."""
        is_filled = kinds == list(_KINDS).index(kind)
        arrays = self._columns(kind, [field.name for field in fields], ids[is_filled])
        place = pa.array(np.cumsum(is_filled) - 1, mask=~is_filled)
        filled = pa.StructArray.from_arrays(_cast(arrays, fields), fields=list(fields))
        return filled.take(place)


def _cast(arrays: Sequence[pa.Array], fields: pa.Schema | pa.StructType) -> list[pa.Array]:
    return [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]


def generator_of(options: Mapping[str, Any]) -> Generator:
    """The generator that the options of a source describe."""
    return Generator(seed=options["seed"], timeline=timeline_of(options))
