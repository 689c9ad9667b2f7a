"""What windows come to, from the partial results of their bins.

Blocks of one bin make blocks of two, of four, of eight; a window is put together from one block for each bit of its span. So
the work for many windows grows with the logarithm of the span and not with the span: a slide may be short.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.model.schema import HIDDEN
from millstream.runtime.accumulate import Accumulators
from millstream.runtime.combine import BIN
from millstream.runtime.window_grid import Grid, Times

START = HIDDEN + "start"
"""The column with the start of a block or a window."""


class WindowSums:
    """Puts together the windows of one step."""

    def __init__(self, grid: Grid, accumulators: Accumulators, keys: tuple[str, ...]) -> None:
        self._grid, self._accumulators, self._by = grid, accumulators, [*keys, START]

    def windows(self, bins: pa.Table, after: int, until: int) -> pa.Table:
        """A row per key and window, of those windows whose last instant lies in (after, until]."""
        blocks = self._blocks(bins, after, until)
        span, covered, pieces = self._grid.span, 0, []
        for power in range(span.bit_length()):
            length = 1 << power
            if span & length:
                pieces.append(self._earlier(blocks, covered, after))
                covered += length
            if covered < span:
                # The earlier half stands first: `first` and `last` go by the order of rows.
                blocks = self._merged([blocks, self._earlier(blocks, length, after)])
        windows = self._merged(pieces) if len(pieces) > 1 else pieces[0]
        return windows.filter(pa.array(self._last_instants(windows) <= until))

    def _blocks(self, bins: pa.Table, after: int, until: int) -> pa.Table:
        """Bins that belong to one of the windows, as blocks of one."""
        starts = np.asarray(bins.column(BIN).combine_chunks())
        is_needed = (self._grid.all_later(starts, 1) - 1 <= until) & (self._ends(starts) - 1 > after)
        place = bins.schema.get_field_index(BIN)
        return bins.set_column(place, START, bins.column(BIN)).filter(pa.array(is_needed))

    def _earlier(self, blocks: pa.Table, count: int, after: int) -> pa.Table:
        """Blocks counted for starts so many bins before their own; those before the first window are left out."""
        if count == 0:
            return blocks
        starts = self._grid.all_later(np.asarray(blocks.column(START).combine_chunks()), -count)
        place = blocks.schema.get_field_index(START)
        return blocks.set_column(place, START, pa.array(starts)).filter(pa.array(self._ends(starts) - 1 > after))

    def _merged(self, tables: list[pa.Table]) -> pa.Table:
        return self._accumulators.merge(pa.concat_tables(tables), self._by)

    def _ends(self, starts: Times) -> Times:
        return self._grid.all_later(starts, self._grid.span)

    def _last_instants(self, windows: pa.Table) -> Times:
        return self._ends(np.asarray(windows.column(START).combine_chunks())) - 1
