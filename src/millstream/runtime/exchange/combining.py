"""The sending half of built-in aggregates: rows are combined before the shuffle, per key and window bin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from millstream.model.counts import StepCounts
from millstream.model.schema import HIDDEN
from millstream.records.batch import TIME, Batch
from millstream.records.codecs import batch_to_ipc
from millstream.runtime.exchange.cells import AFTER, BEFORE, Outbox
from millstream.runtime.exchange.senders import Target, by_key, split_by

BIN = HIDDEN + "bin"
"""Hidden column: start of the slide-long bin a row falls into."""
_ROWS = 1 << 20

Binner = Callable[[Batch, int], tuple[Batch, "pa.Array | None"]]
"""Takes rows and their phase; gives the rows that are not late, and their bins."""


class RowCombiner(Protocol):
    """Makes partial results of rows."""

    keeps_time: bool
    """Whether the newest event time of a group is kept beside its results."""

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """What the results need of rows, as named columns."""
        ...

    def combine(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of rows."""
        ...

    def merge(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of partial results."""
        ...


class CombiningSender:
    """Combines rows into partial results and packs those by subtask."""

    def __init__(
        self,
        target: Target,
        outbox: Outbox,
        keys: tuple[str, ...],
        accumulators: RowCombiner,
        counts: StepCounts,
        binner: Binner | None = None,
    ) -> None:
        self._target, self._outbox, self._keys, self._accumulators = target, outbox, keys, accumulators
        self._counts, self._binner = counts, binner
        self._by = [*keys, BIN] if binner else list(keys)
        self._choose = by_key(keys, target)
        self._rows: list[list[pa.Table]] = [[], []]
        self._partials: list[list[pa.Table]] = [[], []]
        self._held = 0

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        self._counts.rows_in += batch.num_rows
        bins = None
        if self._binner is not None:
            batch, bins = self._binner(batch, phase)
        self._counts.passed += batch.num_rows
        if batch.num_rows == 0:
            return
        columns = [(key, batch.rows.column(key)) for key in self._keys]
        columns += [(BIN, bins)] if bins is not None else []
        if self._accumulators.keeps_time:
            # Behind a union some rows may have no event time.
            columns.append((TIME, pa.nulls(batch.num_rows, pa.int64()) if batch.times is None else batch.times))
        columns += self._accumulators.inputs(batch.rows)
        self._rows[phase].append(pa.table([array for _, array in columns], names=[name for name, _ in columns]))
        self._held += batch.num_rows
        if self._held >= _ROWS:
            self._combine()

    def _combine(self) -> None:
        for phase in (BEFORE, AFTER):
            if self._rows[phase]:
                rows = pa.concat_tables(self._rows[phase])
                self._partials[phase].append(self._accumulators.combine(rows, self._by))
                self._rows[phase] = []
        self._held = 0

    def close(self) -> None:
        """Merge the partial results of the task and put them into the outbox."""
        self._combine()
        for phase in (BEFORE, AFTER):
            parts, self._partials[phase] = self._partials[phase], []
            if not parts:
                continue
            merged = parts[0] if len(parts) == 1 else self._accumulators.merge(pa.concat_tables(parts), self._by)
            for batch in merged.combine_chunks().to_batches():
                for slot, part in split_by(Batch(batch), self._choose(Batch(batch)), self._target.parallelism):
                    self._outbox.add(slot, self._target.level, self._target.port, phase, batch_to_ipc(part.rows))
