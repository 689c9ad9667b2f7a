"""The `rate` source: a position is a row number and the instant from which the pace counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.decided import decided_once
from millstream.connectors.ranges import advanced, pieces, range_splits
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BATCH = 131_072


class RateEnumerator:
    """Counts the rows that are due by the clock."""

    def __init__(self, options: Options, context: SourceContext, *, clock: Callable[[], float] = time.time) -> None:
        self._per_second: float = options["rows_per_second"]
        self._rows: int | None = options["rows"]
        self._parallelism = context.parallelism
        self._folder = context.log_dir
        self._start: Position | None = None
        self._clock = clock

    def initial(self) -> Position:
        """Row 0; the pace counts from when this was first asked."""
        if self._start is None:
            self._start = decided_once(self._folder, "start", lambda: {"row": 0, "since": self._now()})
        return self._start

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def advance(self, start: Position, credit: int) -> Advance:
        """The rows that are due, up to the credit."""
        return advanced(start, credit, rows=self._rows, per_second=self._per_second, now=self._now())

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """A range for each parallel reader."""
        return range_splits(start, end, self._parallelism)

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: rows are made again when asked."""

    def close(self) -> None:
        """Nothing is open."""


class RateReader:
    """Makes the rows of a range."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._per_second: float = options["rows_per_second"]
        self._schema = schema

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """Batches of the range."""
        for first, end in pieces(split, _BATCH):
            numbers = np.arange(first, end, dtype=np.int64)
            due = split["since"] * 1000 + (numbers * (1_000_000 / self._per_second)).astype(np.int64)
            columns = {"timestamp": pa.array(due).view(pa.timestamp("us", tz="UTC")), "value": pa.array(numbers)}
            arrays = [columns[field.name].cast(field.type) for field in self._schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def close(self) -> None:
        """Nothing is open."""
