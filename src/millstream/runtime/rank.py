"""The best rows of each key: `top_n`, and `deduplicate` where the row that stays may change. Columnar, whole keys at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.rank import Deduplicate, Order, TopN, order_of
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.model.time import MIN_TIME
from millstream.runtime.batch import TIME, Batch
from millstream.runtime.columns import ColumnPages
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.joins.pairs import event_times
from millstream.runtime.keyed import Turn, key_codes
from millstream.runtime.pages import Due, StepPages
from millstream.runtime.shares import Share, shares_of

_RANK = HIDDEN + "rank"
_EMIT_ROWS = 131_072
Numbers = npt.NDArray[np.int64]


def ranked_columns(node: StreamNode) -> pa.Schema:
    """What is stored: the rows that stay, their event time and their rank when it was last said."""
    assert node.input_schema is not None
    fields = [pa.field(field.name, field.type) for field in node.input_schema]
    return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(_RANK, pa.int64())])


class RankOperator:
    """Ranks the kept rows of each key together with those that came, and keeps the first N of them."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, (TopN, Deduplicate))
        self._node, self._operation = node, node.operation
        self._stored = ranked_columns(node)
        self._key_groups, self._page_bytes = key_groups, page_bytes
        self._n, self._order, self._newest_first, self._ties = _rules(node.operation)

    def run(self, turn: Turn) -> Due:
        """Rank what came, emit what changed, store."""
        pages = ColumnPages(
            StepPages(turn.store, self._node.uid),
            self._stored,
            self._node.keys,
            key_groups=self._key_groups,
            page_bytes=self._page_bytes,
        )
        is_end = self._operation.emit == "end" and turn.times.terminal
        due = Due()
        for share in shares_of(turn, pages, pages.everything() if is_end else set()):
            due = self._run_share(share, pages, turn, is_end=is_end)
        return due

    def _run_share(self, share: Share, pages: ColumnPages, turn: Turn, *, is_end: bool) -> Due:
        state = self._stored.empty_table()
        for phase, tables in ((BEFORE, share.before), (AFTER, share.after)):
            if tables:
                state = self._taken(state, tables, pages, turn, phase)
        if is_end:
            state = pa.concat_tables([state, pages.load(share.of(pages.everything()))])
            self._emit(state, np.asarray(state.column(TIME).combine_chunks()), turn, BEFORE)
            pages.let_go()
            return Due()
        return pages.store(state)

    def _taken(self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, turn: Turn, phase: int) -> pa.Table:
        came = self._came(tables)
        counts = turn.hands.count(self._node.id)
        counts.rows_in += came.num_rows
        counts.passed += came.num_rows
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        both = pa.concat_tables([known, came]).combine_chunks()
        order, starts, ranks = self._ranked(both)
        times = np.asarray(both.column(TIME).combine_chunks())[order]
        # The time of a change is that of the newest row of its key: the row may have come long before.
        newest = np.repeat(np.maximum.reduceat(times, starts), np.diff(np.r_[starts, len(order)]))
        stays = ranks <= self._n
        ranks, newest = ranks[stays], newest[stays]
        kept = both.take(pa.array(order[stays]))
        is_changed = np.asarray(kept.column(_RANK).combine_chunks()) != ranks
        place = self._stored.get_field_index(_RANK)
        kept = kept.set_column(place, self._stored.field(place), pa.array(ranks))
        if self._operation.emit == "epoch":
            self._emit(kept.filter(pa.array(is_changed)), newest[is_changed], turn, phase)
        return kept

    def _came(self, tables: list[pa.Table]) -> pa.Table:
        """New rows in the columns of the stored ones; their rank is not known yet."""
        table = pa.concat_tables(tables, promote_options="default")
        nothing = pa.array(np.zeros(table.num_rows, np.int64))
        if TIME in table.column_names:
            times = pc.fill_null(table.column(TIME), MIN_TIME)
        else:
            times = pa.array(np.full(table.num_rows, MIN_TIME, np.int64))
        columns = [table.column(name) for name in self._stored.names[:-2]]
        return pa.table([*columns, times, nothing], schema=self._stored)

    def _ranked(self, table: pa.Table) -> tuple[Numbers, Numbers, Numbers]:
        """An order by key and place, where each key starts in it, and ranks from 1 on."""
        keys, _ = key_codes(table, self._node.keys)
        columns = [_places(table.column(name), descending=down) for name, down in self._order]
        # Sorting keeps equal rows as they came.
        newest = (-np.arange(table.num_rows),) if self._newest_first else ()
        order = np.lexsort((*newest, *reversed(columns), keys))
        keys = keys[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        lengths = np.diff(np.r_[starts, len(keys)])
        ranks = np.arange(len(keys)) - np.repeat(starts, lengths) + 1
        return order, starts, self._shared(ranks, keys, [column[order] for column in columns]) if self._ties else ranks

    @staticmethod
    def _shared(ranks: Numbers, keys: Numbers, columns: list[Numbers]) -> Numbers:
        """Rows that are equal in the order have the rank of the first of them."""
        is_new = np.r_[True, np.any([column[1:] != column[:-1] for column in (keys, *columns)], axis=0)]
        firsts = np.flatnonzero(is_new)
        return np.repeat(ranks[firsts], np.diff(np.r_[firsts, len(ranks)]))

    def _emit(self, table: pa.Table, times: Numbers, turn: Turn, phase: int) -> None:
        """Rows by key and rank."""
        schema = self._node.outputs[MAIN].arrow
        names = self._stored.names[:-2]
        columns = [table.column(name) for name in names]
        if isinstance(self._operation, TopN):
            columns.append(table.column(_RANK))
        turn.hands.count(self._node.id).rows_out += table.num_rows
        rows = pa.table(columns, schema=schema).combine_chunks()
        for start in range(0, rows.num_rows, _EMIT_ROWS):
            batch = rows.slice(start, _EMIT_ROWS).to_batches()[0]
            turn.emit(MAIN, Batch(batch, event_times(times[start : start + _EMIT_ROWS])), phase)


def _rules(operation: TopN | Deduplicate) -> tuple[int, Order, bool, bool]:
    """How many rows stay, in which order, whether the newest of equal ones comes first, and whether they share ranks."""
    if isinstance(operation, TopN):
        return operation.n, order_of(operation.by), False, operation.ties
    order = () if operation.by is None else order_of(operation.by)
    if operation.keep == "first":
        return 1, order, False, False
    return 1, tuple((name, not down) for name, down in order), True, False


def _places(column: pa.ChunkedArray, *, descending: bool) -> Numbers:
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
    if pa.types.is_floating(kind) and not values.null_count:
        return _sortable(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    encoded = pc.dictionary_encode(values)
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(1, len(order) + 1)
    found = places[np.asarray(encoded.indices.fill_null(0))] if len(order) else np.zeros(len(values), np.int64)
    return np.where(np.asarray(values.is_null()), 0, found)


def _sortable(values: npt.NDArray[np.float64]) -> Numbers:
    """Doubles as whole numbers of the same order, with one zero and one NaN."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    bits: Numbers = plain.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
