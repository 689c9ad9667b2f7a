"""Tumbling, sliding and cumulative windows of the clock with built-in aggregates, kept as one row per key and slide-long bin.

All rows of an epoch belong to the bin of its clock, so that senders combine them per key. A window fires in the first epoch
whose clock has reached its end, and all that are open fire when the input ends.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MAX_TIME
from millstream.records.batch import TIME
from millstream.runtime.exchange.cells import BEFORE
from millstream.runtime.exchange.combining import BIN
from millstream.runtime.operators.aggregate.operator import accumulators_of
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.shares import shares_of
from millstream.runtime.operators.window.binning import clock_sender
from millstream.runtime.operators.window.bins import bin_stores, window_columns
from millstream.runtime.operators.window.choice import is_binned_by_clock
from millstream.runtime.operators.window.cumulative_sums import sums_of
from millstream.runtime.operators.window.grid import Times, grid_of
from millstream.runtime.operators.window.results import WindowResults
from millstream.runtime.operators.window.settings import window_settings
from millstream.state.columns import ColumnPages
from millstream.state.pages import Due, PageId


class ClockWindowOperator:
    """Keeps partial results per key and bin."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        self._node, self._grid = node, grid_of(node.operation.window)
        self._accumulators = accumulators_of(node)
        self._stored = window_columns(node, self._accumulators)
        self._results = WindowResults(node, self._accumulators)
        self._sums = sums_of(self._grid, self._accumulators, node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, windows the clock has passed, rows after it."""
        is_merged = not self._accumulators.depends_on_order
        pages = self._paging.columns(
            work, self._node, self._stored, self._sums.once, is_merged=is_merged, by_clock=True
        )
        # Whatever has fired ended before the first page is due: a page that was due by then was looked at.
        first_end = min(pages.first_due, work.times.now + 1)
        due = Due()
        for share in shares_of(work, pages, self._over(pages, work)):
            state = self._taken(self._stored.empty_table(), share.before, pages)
            state = pa.concat_tables([state, pages.load(share.of(self._over(pages, work)))])
            self._fire(state, work, first_end)
            state = self._taken(self._open(state, work), share.after, pages)
            due = pages.store(state, lambda table: self._next_ends(table, work.times.now))
        return due

    @staticmethod
    def _over(pages: ColumnPages, work: EpochWork) -> set[PageId]:
        """Pages with windows that are over; at the end of the input all are."""
        return pages.everything() if work.times.terminal else pages.due(work.times.now)

    def _next_ends(self, table: pa.Table, now: int) -> Times:
        """The end of each bin's first window that is not over."""
        return self._grid.next_ends(_bins(table), now - 1) + 1

    def _taken(self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages) -> pa.Table:
        if not tables:
            return state
        came = pa.concat_tables(tables).select(self._stored.names).cast(self._stored)
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        return self._sums.merged(known, came)

    def _fire(self, state: pa.Table, work: EpochWork, first_end: int) -> None:
        """Emit the windows that are over and end no earlier than that."""
        until = MAX_TIME if work.times.terminal else work.times.now
        windows = self._sums.windows(state, first_end - 2, until - 1)
        if windows.num_rows == 0:
            return
        starts, ends = self._sums.bounds(windows)
        times = windows.column(TIME) if TIME in windows.schema.names else None
        self._results.emit(windows, starts, ends, times, work, BEFORE)

    def _open(self, state: pa.Table, work: EpochWork) -> pa.Table:
        """Bins of which a window is not over."""
        if work.times.terminal:
            return state.slice(0, 0)
        return state.filter(pa.array(self._grid.last_ends(_bins(state)) > work.times.now))


def _bins(table: pa.Table) -> Times:
    bins: Times = np.asarray(table.column(BIN).combine_chunks())
    return bins


CLOCK_WINDOW = KeyedKind(
    takes=Window,
    when=is_binned_by_clock,
    operator=ClockWindowOperator,
    stores=bin_stores,
    sender=clock_sender,
    settings=window_settings,
)
