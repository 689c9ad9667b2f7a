"""The order of the rows of each key, and the sending half of rankings: what cannot stay is not sent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.operations.rank import RANKS, Deduplicate, Order, TopN, WindowRank, order_of
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.model.schema import HIDDEN
from millstream.model.time import MIN_TIME
from millstream.records.batch import TIME, Batch
from millstream.records.canonical_keys import canonical
from millstream.runtime.exchange.cells import AFTER, BEFORE, RowSender, joined_rows
from millstream.runtime.operators.contract import key_codes

NEWEST = HIDDEN + "newest"
"""Hidden column in payloads: the newest event time of the row's key, also of rows that were not sent."""
_WORTHWHILE = 0.7
"""Sorting out is given up in a task where more than this share of the rows stays."""
Numbers = npt.NDArray[np.int64]
_LEAST = np.int64(-(2**63))


class Ranked(NamedTuple):
    """The rows of a table by key and place."""

    order: Numbers
    starts: Numbers
    """Where each key starts in the order."""
    ranks: Numbers
    """From 1 on, in the order."""

    def highest(self, numbers: Numbers) -> Numbers:
        """For each row in the order, the highest number of a row of its key."""
        if not len(numbers):
            return numbers
        lengths = np.diff(np.r_[self.starts, len(self.order)])
        return np.repeat(np.maximum.reduceat(numbers[self.order], self.starts), lengths)


class Ranking:
    """How many rows of a key stay, and in which order."""

    def __init__(self, node: StreamNode, *beside: str) -> None:
        """`beside` names columns that part the rows of a key further."""
        assert isinstance(node.operation, RANKS)
        self.keys = (*node.keys, *beside)
        self.n, self._order, self._newest_first, self._ties = _rules(node.operation)

    def of(self, table: pa.Table) -> Ranked:
        """The rows of a table in order."""
        keys, _ = key_codes(table, self.keys)
        columns = [places(table.column(name), descending=down) for name, down in self._order]
        # Sorting keeps equal rows as they came.
        newest = (-np.arange(table.num_rows),) if self._newest_first else ()
        order = np.lexsort((*newest, *reversed(columns), keys))
        keys = keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        lengths = np.diff(np.r_[starts, len(keys)])
        ranks = np.arange(len(keys)) - np.repeat(starts, lengths) + 1
        if self._ties:
            ranks = _shared(ranks, keys, [column[order] for column in columns])
        return Ranked(order, starts, ranks)


class RankingSender:
    """Sends the rows that are among the first of their key here, in the order they came.

    A row that is not among the first N of some rows is not among the first N of more of them.
    """

    def __init__(self, rows: RowSender, ranking: Ranking, counts: StepCounts, limit: int) -> None:
        self._rows, self._ranking, self._counts, self._limit = rows, ranking, counts, limit
        self._held: list[list[Batch]] = [[], []]
        self._bytes = 0
        self._is_worthwhile = True

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        self._counts.rows_in += batch.num_rows
        self._counts.passed += batch.num_rows
        if batch.num_rows == 0:
            return
        if not self._is_worthwhile:
            self._rows.send(batch, phase)
            return
        self._held[phase].append(batch)
        self._bytes += batch.rows.nbytes
        if self._bytes >= self._limit:
            self._sort_out()

    def _sort_out(self) -> None:
        """Keep what may stay; when that is much, send it."""
        came = stay = self._bytes = 0
        for phase in (BEFORE, AFTER):
            for batch in joined_rows(self._held[phase]):
                kept = self._best(batch)
                came, stay = came + batch.num_rows, stay + kept.num_rows
                self._held[phase] = [kept]
                self._bytes += kept.rows.nbytes
        self._is_worthwhile = stay <= _WORTHWHILE * came
        if self._bytes >= self._limit // 2 or not self._is_worthwhile:
            self._send_held()

    def _best(self, batch: Batch) -> Batch:
        table = pa.Table.from_batches([batch.with_time_column()])
        ranked = self._ranking.of(table)
        newest = np.empty(batch.num_rows, np.int64)
        newest[ranked.order] = ranked.highest(newest_times([table]))
        stays = np.sort(ranked.order[ranked.ranks <= self._ranking.n])
        kept = batch.take(stays)
        rows = kept.rows.drop_columns([NEWEST]) if NEWEST in kept.rows.schema.names else kept.rows
        return Batch(rows.append_column(NEWEST, pa.array(newest[stays])), kept.times)

    def _send_held(self) -> None:
        for phase in (BEFORE, AFTER):
            for batch in self._held[phase]:
                self._rows.send(batch, phase)
            self._held[phase] = []
        self._bytes = 0

    def close(self) -> None:
        """Put everything still held into the outbox."""
        if self._bytes:
            self._sort_out()
        self._send_held()
        self._rows.close()


def times_of(table: pa.Table) -> Numbers:
    """The event times of rows; behind a union some have none."""
    return _filled(table, TIME) if TIME in table.column_names else np.full(table.num_rows, MIN_TIME, np.int64)


def newest_times(tables: list[pa.Table]) -> Numbers:
    """For each row the newest time of its key, as far as its sender knows; of rows it did not sort out, their own."""
    found = []
    for table in tables:
        times = times_of(table)
        found.append(np.maximum(times, _filled(table, NEWEST)) if NEWEST in table.column_names else times)
    return np.concatenate(found)


def _filled(table: pa.Table, name: str) -> Numbers:
    column: Numbers = np.asarray(pc.fill_null(table.column(name), MIN_TIME).combine_chunks())
    return column


def _shared(ranks: Numbers, keys: Numbers, columns: list[Numbers]) -> Numbers:
    """Rows that are equal in the order have the rank of the first of them."""
    is_new = np.r_[True, np.any([column[1:] != column[:-1] for column in (keys, *columns)], axis=0)]
    firsts = np.flatnonzero(is_new)
    return np.repeat(ranks[firsts], np.diff(np.r_[firsts, len(ranks)]))


def _rules(operation: TopN | Deduplicate | WindowRank) -> tuple[int, Order, bool, bool]:
    """How many rows stay, in which order, whether the newest of equal ones comes first, and whether they share ranks."""
    if isinstance(operation, TopN):
        return operation.n, order_of(operation.by), False, operation.ties
    order = () if operation.by is None else order_of(operation.by)
    if isinstance(operation, WindowRank):
        return operation.n, order, operation.newest_first, operation.ties
    if operation.keep == "first":
        return 1, order, False, False
    return 1, tuple((name, not down) for name, down in order), True, False


def places(column: pa.ChunkedArray, *, descending: bool) -> Numbers:
    """Numbers in the order of the values, equal for equal values; as in Spark, null is the smallest and NaN the largest."""
    values = column.combine_chunks()
    numbers = _numbers(values)
    # The complement turns an order round, and unlike the negative it exists for every number.
    return ~numbers if descending else numbers


def _numbers(values: pa.Array) -> Numbers:
    kind = values.type
    is_whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
    if is_whole and not values.null_count:
        whole: Numbers = values.cast(pa.int64()).to_numpy()
        return whole
    if pa.types.is_floating(kind):
        return _sortable(values)
    encoded = pc.dictionary_encode(values)
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(1, len(order) + 1)
    found = places[np.asarray(encoded.indices.fill_null(0))] if len(order) else np.zeros(len(values), np.int64)
    return np.where(np.asarray(values.is_null()), 0, found)


def _sortable(values: pa.Array) -> Numbers:
    """Floats as whole numbers of the same order; null lies below all of them, and no float has its number."""
    known = canonical(values.cast(pa.float64()).fill_null(0.0))
    bits: Numbers = known.to_numpy(zero_copy_only=False).view(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return np.where(np.asarray(values.is_null()), _LEAST, numbers) if values.null_count else numbers
