"""Session windows with built-in aggregates, kept as one row per key and session and merged many at a time.

The rows of a phase and the sessions that are held are sorted by key and start; where a start lies behind every end before it,
a session begins. A session is late as a whole: it is gone when even the rows that came with it and the sessions it touches
do not bring its end behind the watermark. As for other windows, what has fired follows from the watermarks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.step import LATE
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.records.batch import Batch, from_table
from millstream.runtime.bad_records import failure
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.aggregate.operator import accumulators_of
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import key_codes
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.shares import Share, shares_of
from millstream.runtime.operators.window.choice import is_merged_session
from millstream.runtime.operators.window.grid import Times
from millstream.runtime.operators.window.results import WindowResults
from millstream.runtime.operators.window.settings import window_settings
from millstream.state.columns import ColumnPages
from millstream.state.pages import Due
from millstream.state.slots import Store, key_columns, own_store

_START, _END, _SESSION = HIDDEN + "start", HIDDEN + "end", HIDDEN + "session"


def session_columns(node: StreamNode, accumulators: Accumulators) -> pa.Schema:
    """What is stored: a row per key and session."""
    bounds = [pa.field(_START, pa.int64()), pa.field(_END, pa.int64())]
    return pa.schema([*key_columns(node), *bounds, *accumulators.part_fields])


class _Sessions(NamedTuple):
    """Sessions made of those that were held and of new rows."""

    table: pa.Table
    of_rows: Times
    """For each new row, the place of its session."""


class SessionAggregateOperator:
    """Keeps partial results per key and session."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        self._node, self._gap, self._lateness = node, node.operation.window.gap, node.operation.lateness
        self._accumulators = accumulators_of(node)
        self._stored = session_columns(node, self._accumulators)
        self._results = WindowResults(node, self._accumulators)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, sessions the watermark closes, rows after it."""
        pages = self._paging.columns(work, self._node, self._stored, self._touching)
        due = Due()
        for share in shares_of(work, pages, pages.due(work.times.watermark)):
            due = self._run_share(share, pages, work)
        return due

    def _run_share(self, share: Share, pages: ColumnPages, work: EpochWork) -> Due:
        before, now = work.times.before, work.times.watermark
        state = self._take(self._stored.empty_table(), share.before, pages, work, before, BEFORE)
        if now > before:
            state = pa.concat_tables([state, pages.load(share.of(pages.due(now)))])
            last = _column(state, _END) - 1
            self._emit(state.filter(pa.array((last > before) & (last <= now))), work, BEFORE)
            state = state.filter(pa.array(last + self._lateness > now))
        state = self._take(state, share.after, pages, work, now, AFTER)
        return pages.store(state, lambda table: self._next_due(table, now))

    def _touching(self, known: pa.Table) -> pa.Table:
        """Stored sessions made one where they touch."""
        assert self._node.input_schema is not None
        nothing = pa.RecordBatch.from_pylist([], schema=self._node.input_schema.arrow)
        return self._merged(known, Batch(nothing, pa.array([], pa.int64()))).table

    def _next_due(self, table: pa.Table, watermark: int) -> Times:
        last = _column(table, _END) - 1
        return np.where(last > watermark, last, last + self._lateness)

    def _take(
        self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, work: EpochWork, watermark: int, phase: int
    ) -> pa.Table:
        """Merge rows into sessions; those that fired already and got rows fire again, those that are gone are late."""
        if not tables:
            return state
        came = pa.concat_tables(tables, promote_options="default").combine_chunks()
        batch = from_table(came)
        if batch.times is None or batch.times.null_count:
            raise failure(
                self._node.id, f"a batch of {batch.num_rows} rows", "a row without event time reached a window"
            )
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        made = self._merged(known, batch)
        last = _column(made.table, _END) - 1
        is_gone = last + self._lateness <= watermark
        self._count(work, batch, np.flatnonzero(is_gone[made.of_rows]), phase)
        if self._lateness:
            is_touched = np.bincount(made.of_rows, minlength=len(last)) > 0
            self._emit(made.table.filter(pa.array(is_touched & (last <= watermark) & ~is_gone)), work, phase)
        return made.table.filter(pa.array(~is_gone)) if is_gone.any() else made.table

    def _count(self, work: EpochWork, batch: Batch, late: Times, phase: int) -> None:
        counts = work.ledger.count(self._node.id)
        counts.rows_in += batch.num_rows
        counts.late += len(late)
        counts.passed += batch.num_rows - len(late)
        if len(late):
            work.emit(LATE, batch.take(late), phase)

    def _merged(self, known: pa.Table, batch: Batch) -> _Sessions:
        keys = list(self._node.keys)
        both = pa.concat_tables(
            [known.select(keys), pa.Table.from_batches([batch.rows]).select(keys).cast(known.select(keys).schema)]
        )
        times = np.asarray(batch.times)
        starts = np.concatenate([_column(known, _START), times])
        ends = np.concatenate([_column(known, _END), times + self._gap])
        order, firsts, session = sessions_of(key_codes(both, self._node.keys)[0], starts, ends)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = session
        of_rows = numbers[known.num_rows :]
        parts = self._parts(known, numbers[: known.num_rows], batch, of_rows)
        bounds = [pa.array(starts[order][firsts]), pa.array(np.maximum.reduceat(ends[order], firsts))]
        columns = [*both.take(pa.array(order[firsts])).columns, *bounds, *parts]
        return _Sessions(pa.table(columns, names=self._stored.names).cast(self._stored), of_rows)

    def _parts(self, known: pa.Table, of_known: Times, batch: Batch, of_rows: Times) -> list[pa.ChunkedArray]:
        """Partial results in the order of the sessions' numbers."""
        inputs = [(_SESSION, pa.array(of_rows)), *self._accumulators.inputs(batch.rows)]
        rows = pa.table([array for _, array in inputs], names=[name for name, _ in inputs])
        merged = self._accumulators.combine(rows, [_SESSION])
        if known.num_rows:
            names = [field.name for field in self._accumulators.part_fields]
            held = known.select(names).append_column(_SESSION, pa.array(of_known)).select([_SESSION, *names])
            merged = self._accumulators.merge(pa.concat_tables([held, merged]), [_SESSION])
        placed = merged.take(pa.array(np.argsort(_column(merged, _SESSION), kind="stable")))
        return list(placed.drop_columns([_SESSION]).columns)

    def _emit(self, sessions: pa.Table, work: EpochWork, phase: int) -> None:
        """Results in the order of their sessions' ends."""
        if sessions.num_rows == 0:
            return
        sessions = sessions.take(pa.array(np.argsort(_column(sessions, _END), kind="stable")))
        ends = _column(sessions, _END)
        self._results.emit(sessions, _column(sessions, _START), ends, pa.chunked_array([ends - 1]), work, phase)


def sessions_of(
    codes: npt.NDArray[np.int64], starts: Times, ends: Times
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which intervals of equal codes touch each other, also by way of others.

    Returns:
        An order by code and start; in that order, where sessions begin, and the number of each interval's session.
    """
    order = np.lexsort((starts, codes))
    code, start, end = codes[order], starts[order], ends[order]
    is_new_key = np.r_[True, code[1:] != code[:-1]]
    # The highest end so far within a key: ends by rank, raised by key, so that one pass over all keys finds it.
    known, rank = np.unique(end, return_inverse=True)
    key = np.cumsum(is_new_key) - 1
    highest = known[np.maximum.accumulate(key * len(known) + rank) - key * len(known)]
    begins = is_new_key | np.r_[True, start[1:] > highest[:-1]]
    return order, np.flatnonzero(begins), np.cumsum(begins) - 1


def _column(table: pa.Table, name: str) -> Times:
    return np.asarray(table.column(name).combine_chunks())


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, session_columns(node, accumulators_of(node)))


MERGED_SESSION = KeyedKind(
    takes=Window,
    when=is_merged_session,
    operator=SessionAggregateOperator,
    stores=_stores,
    settings=window_settings,
)
