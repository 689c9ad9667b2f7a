"""The `nexmark` source: a position is the number of the next event, a split a range of numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.nexmark.generator import generator_of
from millstream.connectors.nexmark.spec import columns_of, refuse_unknown
from millstream.connectors.ranges import advanced, range_splits
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split
from millstream.model.connector import Options
from millstream.model.schema import Schema


class NexmarkEnumerator:
    """Counts events, up to the end and, when paced, no faster than the rate."""

    def __init__(self, options: Options, context: SourceContext, *, clock: Callable[[], float] = time.time) -> None:
        self._first: int = options["first"]
        events: int | None = options["events"]
        self._end = None if events is None else self._first + events
        self._rate: float = options["rate"]
        self._is_paced: bool = options["paced"]
        self._partitions: int = options["partitions"] or context.parallelism
        self._clock = clock
        refuse_unknown(columns_of(options["kinds"]), context.schema.names, step=context.step)

    def initial(self) -> Position:
        """The first event; a paced source counts from now, as if the events before it had just been given."""
        if not self._is_paced:
            return {"row": self._first}
        return {"row": self._first, "since": self._now() - int(self._first * 1000 / self._rate)}

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def advance(self, start: Position, credit: int) -> Advance:
        """As many events as the credit, the pace and the end allow."""
        per_second = self._rate if self._is_paced else None
        return advanced(start, credit, rows=self._end, per_second=per_second, now=self._now())

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """The range in partitions."""
        return range_splits(start, end, self._partitions)

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: events are generated again when asked."""

    def close(self) -> None:
        """Nothing is open."""


class NexmarkReader:
    """Generates the events of a range."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._generator = generator_of(options)
        self._kind: str = options["kinds"]
        self._schema = schema

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """Batches of the range."""
        yield from self._generator.batches(self._kind, self._schema, split["first"], split["end"])

    def close(self) -> None:
        """Nothing is open."""
