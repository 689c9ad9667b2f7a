"""Tumbling, sliding and cumulative windows with built-in aggregates, kept as one row per key and slide-long bin.

A window fires when the watermark passes its last instant: windows whose last instant lies in (watermark before, watermark
now]. Rows for a window that fired but is within the allowed lateness fire it again. Both follow from the watermarks of the
epoch plan alone, so no flag is stored.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.model.time import MIN_TIME
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.exchange.combining import BIN
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.aggregate.operator import accumulators_of
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import group_by_key
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.shares import Share, shares_of
from millstream.runtime.operators.window.binning import binned_sender
from millstream.runtime.operators.window.choice import is_binned
from millstream.runtime.operators.window.cumulative_sums import sums_of
from millstream.runtime.operators.window.grid import Times, grid_of
from millstream.runtime.operators.window.results import WindowResults
from millstream.runtime.operators.window.settings import window_settings
from millstream.runtime.operators.window.sums import START
from millstream.state.columns import ColumnPages
from millstream.state.pages import Due
from millstream.state.slots import Store, key_columns, own_store

_MARK = HIDDEN + "mark"


def window_columns(node: StreamNode, accumulators: Accumulators) -> pa.Schema:
    """What is stored: a row per key and bin."""
    return pa.schema([*key_columns(node), pa.field(BIN, pa.int64()), *accumulators.part_fields])


def bin_stores(node: StreamNode) -> tuple[Store, ...]:
    """Partial results per key and bin."""
    return own_store(node, window_columns(node, accumulators_of(node)))


class WindowAggregateOperator:
    """Keeps partial results per key and bin; its sender has binned and combined the rows and set late ones aside."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._grid = grid_of(node.operation.window)
        self._accumulators = accumulators_of(node)
        self._stored = window_columns(node, self._accumulators)
        self._results = WindowResults(node, self._accumulators)
        self._by = [*node.keys, BIN]
        self._sums = sums_of(self._grid, self._accumulators, node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, windows the watermark closes, rows after it; then forget what is past lateness."""
        is_merged = not self._accumulators.depends_on_order
        pages = self._paging.columns(work, self._node, self._stored, self._sums.once, is_merged=is_merged)
        due = Due()
        for share in shares_of(work, pages, pages.due(work.times.watermark)):
            due = self._run_share(share, pages, work)
        return due

    def _run_share(self, share: Share, pages: ColumnPages, work: EpochWork) -> Due:
        before, now = work.times.before, work.times.watermark
        state = self._take(self._stored.empty_table(), share.before, pages, work, before, BEFORE)
        if now > before:
            state = pa.concat_tables([state, pages.load(share.of(pages.due(now)))])
            self._fire(state, work, BEFORE, before, now)
        state = self._take(state, share.after, pages, work, now, AFTER)
        bins = np.asarray(state.column(BIN).combine_chunks())
        ends = self._grid.last_ends(bins) - 1 + self._operation.lateness
        return pages.store(state.filter(pa.array(ends > now)), lambda table: self._next_due(table, now))

    def _take(
        self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, work: EpochWork, watermark: int, phase: int
    ) -> pa.Table:
        """Merge partial results; windows that fired already and got rows fire again."""
        if not tables:
            return state
        came = pa.concat_tables(tables).select(self._stored.names).cast(self._stored)
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        merged = self._sums.merged(known, came)
        if self._operation.lateness and watermark > MIN_TIME:
            self._fire_again(merged, came, work, watermark, phase)
        return merged

    def _fire(self, state: pa.Table, work: EpochWork, phase: int, after: int, until: int) -> None:
        """Emit the windows whose last instant lies in (after, until]."""
        self._emit(self._sums.windows(state, after, until), work, phase)

    def _fire_again(self, merged: pa.Table, came: pa.Table, work: EpochWork, watermark: int, phase: int) -> None:
        """Emit anew the windows behind the watermark that the rows which came belong to."""
        oldest = watermark - self._operation.lateness
        is_behind = self._grid.all_later(np.asarray(came.column(BIN).combine_chunks()), 1) - 1 <= watermark
        if not is_behind.any():
            return
        came = self._accumulators.merge(came.filter(pa.array(is_behind)), self._by)
        touched = self._sums.windows(came, oldest, watermark).select([*self._node.keys, START])
        if touched.num_rows == 0:
            return
        fired = self._sums.windows(merged, oldest, watermark)
        keys = [*self._node.keys, START]
        marked = pa.concat_tables([_marked(fired, 0), _marked(touched, 1)], promote_options="default")
        order, runs = group_by_key(marked, tuple(keys))
        marks = np.asarray(marked.column(_MARK).combine_chunks())[order]
        hit = np.maximum.reduceat(marks, [run.start for run in runs])
        lengths = [run.end - run.start for run in runs]
        chosen = np.sort(order[(np.repeat(hit, lengths) == 1) & (marks == 0)])
        self._emit(fired.take(pa.array(chosen)), work, phase)

    def _emit(self, windows: pa.Table, work: EpochWork, phase: int) -> None:
        if windows.num_rows == 0:
            return
        starts, ends = self._sums.bounds(windows)
        self._results.emit(windows, starts, ends, pa.chunked_array([ends - 1]), work, phase)

    def _next_due(self, table: pa.Table, watermark: int) -> Times:
        """The last instant of a row's next window, or the time to forget the row."""
        bins = np.asarray(table.column(BIN).combine_chunks())
        following = self._grid.next_ends(bins, watermark)
        return np.where(following > watermark, following, following + self._operation.lateness)


def _marked(table: pa.Table, mark: int) -> pa.Table:
    return table.append_column(_MARK, pa.array(np.full(table.num_rows, mark, np.int64)))


BINNED_WINDOW = KeyedKind(
    takes=Window,
    when=is_binned,
    operator=WindowAggregateOperator,
    stores=bin_stores,
    sender=binned_sender,
    settings=window_settings,
)
