"""The order of the rows of each key, and the times that go with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.operations.rank import RANKS, Deduplicate, Order, TopN, WindowRank, order_of
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.model.time import MIN_TIME
from millstream.records.batch import TIME
from millstream.records.canonical_keys import canonical
from millstream.runtime.operators.grouping import key_codes

NEWEST = HIDDEN + "newest"
"""Hidden column in payloads: the newest event time of the row's key, also of rows that were not sent."""
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


class KeyRanking:
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


def times_of(table: pa.Table) -> Numbers:
    """The event times of rows; behind a union some have none."""
    return _filled(table, TIME) if TIME in table.column_names else np.full(table.num_rows, MIN_TIME, np.int64)


def newest_times(tables: list[pa.Table]) -> Numbers:
    """For each row the newest time of its key, as far as its sender knows; of rows it did not sort out, their own."""
    newest = []
    for table in tables:
        times = times_of(table)
        newest.append(np.maximum(times, _filled(table, NEWEST)) if NEWEST in table.column_names else times)
    return np.concatenate(newest)


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
    numbers = places[np.asarray(encoded.indices.fill_null(0))] if len(order) else np.zeros(len(values), np.int64)
    return np.where(np.asarray(values.is_null()), 0, numbers)


def _sortable(values: pa.Array) -> Numbers:
    """Floats as whole numbers of the same order; null lies below all of them, and no float has its number."""
    known = canonical(values.cast(pa.float64()).fill_null(0.0))
    bits: Numbers = known.to_numpy(zero_copy_only=False).view(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return np.where(np.asarray(values.is_null()), _LEAST, numbers) if values.null_count else numbers
