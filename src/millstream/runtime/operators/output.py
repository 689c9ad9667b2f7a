"""Rows that operators emit one by one, handed on as batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.model.counts import StepCounts
from millstream.model.schema import Schema
from millstream.records.batch import Batch
from millstream.runtime.bad_records import BadRecords
from millstream.runtime.chain.made_rows import to_batch
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import CHUNK, Emit


class RowOutput:
    """Collects rows an operator emits one by one, and hands them on as batches."""

    def __init__(self, name: str, schema: Schema, bad: BadRecords, counts: StepCounts, emit: Emit) -> None:
        self._name, self._schema, self._bad, self._counts, self._emit = name, schema, bad, counts, emit
        self._rows: list[Any] = []
        self._times: list[int | None] = []
        self.phase = BEFORE

    def add(self, row: Any, time: int | None) -> None:
        """Emit a row with its event time."""
        self._rows.append(row)
        self._times.append(time)
        if len(self._rows) >= CHUNK:
            self.flush()

    def extend(self, rows: list[Any], times: list[int | None]) -> None:
        """Emit many rows with their event times."""
        self._rows += rows
        self._times += times
        if len(self._rows) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Hand on what is held."""
        if not self._rows:
            return
        kept, batch = to_batch(self._rows, self._schema, lambda row, problem, _: self._bad.refuse_result(row, problem))
        times = self._times if kept is None else [self._times[place] for place in kept]
        has_times = times.count(None) < len(times)
        self._counts.rows_out += batch.num_rows
        self._emit(self._name, Batch(batch, pa.array(times, pa.int64()) if has_times else None), self.phase)
        self._rows, self._times = [], []

    def advance(self) -> None:
        """The watermark has moved: what follows belongs behind it."""
        self.flush()
        self.phase = AFTER
