"""The `datagen` source: a position is a row number, a split a range of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.datagen.generators import column
from millstream.connectors.decided import decided_once
from millstream.connectors.ranges import advanced, pieces, range_splits
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split
from millstream.errors import InvalidSchema
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BATCH = 131_072


class DatagenEnumerator:
    """Counts rows, up to the end and no faster than the rate."""

    def __init__(self, options: Options, context: SourceContext, *, clock: Callable[[], float] = time.time) -> None:
        self._rows: int | None = options["rows"]
        self._rate: float | None = options["rate"]
        self._parallelism = context.parallelism
        self._folder = context.log_dir
        self._start: Position | None = None
        self._clock = clock
        _check(options["fields"], context)

    def initial(self) -> Position:
        """Row 0; a paced source counts from when this was first asked."""
        if self._rate is None:
            return {"row": 0}
        if self._start is None:
            self._start = decided_once(self._folder, "start", lambda: {"row": 0, "since": self._now()})
        return self._start

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def advance(self, start: Position, credit: int) -> Advance:
        """As many rows as the credit, the rate and the end allow."""
        return advanced(start, credit, rows=self._rows, per_second=self._rate, now=self._now())

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """A range for each parallel reader."""
        return range_splits(start, end, self._parallelism)

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: rows are generated again when asked."""

    def close(self) -> None:
        """Nothing is open."""


def _check(fields: dict[str, Any], context: SourceContext) -> None:
    missing = [name for name in context.schema.names if name not in fields]
    if missing:
        msg = "the schema has columns that no field generates"
        raise InvalidSchema(
            msg, code="GEN-001", step=context.step, found=", ".join(missing), known=fields, hint="add them to fields="
        )


class DatagenReader:
    """Generates the rows of a range."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._fields, self._seed = options["fields"], options["seed"]
        self._schema = schema

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """Batches of the range."""
        for first, end in pieces(split, _BATCH):
            arrays = [
                column(field.name, self._fields[field.name], self._seed, first, end).cast(field.type)
                for field in self._schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def close(self) -> None:
        """Nothing is open."""
