"""The contract of keyed operators, and what they share: grouping rows by key and emitting rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import Schema
from millstream.runtime.batch import Batch, from_table
from millstream.runtime.chain import Hands, to_batch
from millstream.runtime.counts import StepCounts
from millstream.runtime.entries import Entries, Entry
from millstream.runtime.epoch import EpochTimes
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.keygroups import stable_order
from millstream.runtime.pages import Due, PageStore
from millstream.runtime.policy import BadRecords

CHUNK = 16_384
"""Rows an operator turns into Python objects at a time."""
_WIDEST = 1 << 62
"""Combined key codes stay below this."""
Emit = Callable[[str, Batch, int], None]
"""Takes an output name, rows and the phase they belong to."""


class Turn(NamedTuple):
    """One epoch of one keyed step in one subtask."""

    times: EpochTimes
    before: list[pa.Table]
    """Rows that upstream made before the watermark moved."""
    after: list[pa.Table]
    """Rows that came after it."""
    store: PageStore
    emit: Emit
    hands: Hands
    other_before: list[pa.Table] = []
    """As `before`, of the second input of a step that takes two."""
    other_after: list[pa.Table] = []
    subtask: int = 0


class KeyedOperator(Protocol):
    """Runs the same in every engine: rows before the watermark, then due timers, then rows after it."""

    def run(self, turn: Turn) -> Due:
        """Handle one epoch; returns when the step next has something due."""
        ...


class KeyRun(NamedTuple):
    """Consecutive places of one key in a table that was sorted by key."""

    start: int
    end: int


def group_by_key(table: pa.Table, keys: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], list[KeyRun]]:
    """An order that puts rows of one key side by side (keeping their order), and where each key's rows lie."""
    codes, bound = key_codes(table, keys)
    order = stable_order(codes, bound)
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    ends = np.r_[starts[1:], len(ordered)]
    return order, list(map(KeyRun, starts.tolist(), ends.tolist()))


def key_codes(table: pa.Table, keys: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], int]:
    """A number for each row, equal for rows of one key and only for those, and a bound above all of them."""
    codes, bound = np.zeros(table.num_rows, np.int64), 1
    for key in keys:
        encoded = pc.dictionary_encode(table.column(key).combine_chunks(), null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        if bound * len(encoded.dictionary) > _WIDEST:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            bound = table.num_rows
        codes = codes * len(encoded.dictionary) + indices
        bound *= len(encoded.dictionary)
    return codes, bound


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
        kept, batch = to_batch(self._rows, self._schema, self._bad.refuse_result)
        times = self._times if kept is None else [self._times[place] for place in kept]
        has_times = times.count(None) < len(times)
        self._counts.rows_out += batch.num_rows
        self._emit(self._name, Batch(batch, pa.array(times, pa.int64()) if has_times else None), self.phase)
        self._rows, self._times = [], []

    def advance(self) -> None:
        """The watermark has moved: what follows belongs behind it."""
        self.flush()
        self.phase = AFTER


class KeyRows(NamedTuple):
    """Some rows of one key inside a batch, and the key's entry."""

    start: int
    end: int
    entry: Entry


def key_rows(tables: list[pa.Table], keys: tuple[str, ...], entries: Entries) -> Iterator[tuple[Batch, list[KeyRows]]]:
    """All rows key by key, in their order within a key, a bounded number at a time."""
    if not tables:
        return
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    order, runs = group_by_key(table, keys)
    for chunk, pieces in _in_chunks(table, order, runs, CHUNK):
        firsts = pa.array([piece.start for piece in pieces])
        values = [chunk.column(key).combine_chunks().take(firsts) for key in keys]
        names = zip(*(column.to_pylist() for column in values), strict=True)
        found = [entries.entry(name, place) for name, place in zip(names, entries.places(values), strict=True)]
        yield from_table(chunk), [KeyRows(*piece, entry) for piece, entry in zip(pieces, found, strict=True)]


def _in_chunks(
    table: pa.Table, order: npt.NDArray[np.int64], runs: list[KeyRun], rows: int
) -> Iterator[tuple[pa.Table, list[KeyRun]]]:
    """The table in key order, a bounded number of rows at a time, with the runs of each piece; long runs are cut."""
    piece: list[KeyRun] = []
    begin = 0
    for run in runs:
        start = run.start
        while start < run.end:
            end = min(run.end, begin + rows)
            piece.append(KeyRun(start - begin, end - begin))
            start = end
            if end - begin >= rows:
                yield table.take(pa.array(order[begin:end])), piece
                piece, begin = [], end
    if piece:
        yield table.take(pa.array(order[begin : begin + piece[-1].end])), piece
