"""Tumbling and sliding windows of the clock with built-in aggregates, kept as one row per key and window.

All rows of an epoch belong to the windows of its clock, so that senders combine them per key. A window fires in the first epoch
whose clock has reached its end, and all that are open fire when the input ends.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.step import Window
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.aggregates import accumulators_of
from millstream.runtime.batch import TIME
from millstream.runtime.columns import ColumnPages
from millstream.runtime.combine import BIN
from millstream.runtime.exchange import BEFORE
from millstream.runtime.keyed import Turn
from millstream.runtime.pages import Due, PageId
from millstream.runtime.shares import shares_of
from millstream.runtime.step_state import Paging
from millstream.runtime.window_grid import Times, grid_of
from millstream.runtime.window_results import WindowResults
from millstream.runtime.windows import window_columns


class ClockWindowOperator:
    """Keeps partial results per key and window; the hidden column of bins holds the starts of windows."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        self._node, self._grid = node, grid_of(node.operation.window)
        self._accumulators = accumulators_of(node)
        self._stored = window_columns(node, self._accumulators)
        self._results = WindowResults(node, self._accumulators)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, turn: Turn) -> Due:
        """Rows before the watermark, windows the clock has passed, rows after it."""
        pages = self._paging.columns(turn, self._node, self._stored, by_clock=True)
        due = Due()
        for share in shares_of(turn, pages, self._over(pages, turn)):
            state = self._taken(self._stored.empty_table(), share.before, pages)
            state = self._fired(pa.concat_tables([state, pages.load(share.of(self._over(pages, turn)))]), turn)
            state = self._taken(state, share.after, pages)
            due = pages.store(state, self._ends)
        return due

    @staticmethod
    def _over(pages: ColumnPages, turn: Turn) -> set[PageId]:
        """Pages with windows that are over; at the end of the input all are."""
        return pages.everything() if turn.times.terminal else pages.due(turn.times.now)

    def _ends(self, table: pa.Table) -> Times:
        return self._grid.all_later(np.asarray(table.column(BIN).combine_chunks()), self._grid.span)

    def _taken(self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages) -> pa.Table:
        """Merge partial results into each of the windows that their bin belongs to."""
        if not tables:
            return state
        came = pa.concat_tables(tables).select(self._stored.names).cast(self._stored)
        place = came.schema.get_field_index(BIN)
        bins = np.asarray(came.column(BIN).combine_chunks())
        windows = [
            came.set_column(place, BIN, pa.array(self._grid.all_later(bins, -number)))
            for number in range(self._grid.span)
        ]
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        return self._accumulators.merge(pa.concat_tables([known, *windows]), [*self._node.keys, BIN])

    def _fired(self, state: pa.Table, turn: Turn) -> pa.Table:
        """Emit the windows that are over, the oldest first; gives those that are not."""
        is_over = self._ends(state) <= turn.times.now
        if turn.times.terminal:
            is_over[:] = True
        if not is_over.any():
            return state
        over = state.filter(pa.array(is_over))
        over = over.take(pa.array(np.argsort(np.asarray(over.column(BIN).combine_chunks()), kind="stable")))
        starts = np.asarray(over.column(BIN).combine_chunks())
        times = over.column(TIME) if TIME in over.schema.names else None
        self._results.emit(over, starts, self._ends(over), times, turn, BEFORE)
        return state.filter(pa.array(~is_over))
