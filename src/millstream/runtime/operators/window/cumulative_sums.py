"""What cumulative windows come to, from the partial results of their bins.

A window is called by its last bin. Results that reach so many bins back are merged with those of the windows that end as many
bins before, which doubles how far they reach: the work grows with the logarithm of the number of bins, not with the number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.runtime.exchange.combining import BIN
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.window.grid import CumulativeGrid, Grid, Times
from millstream.runtime.operators.window.sums import START, WindowSums


class CumulativeSums(WindowSums):
    """Puts together the windows of one step that begin together and end one after the other."""

    def __init__(self, grid: CumulativeGrid, accumulators: Accumulators, keys: tuple[str, ...]) -> None:
        super().__init__(grid, accumulators, keys)
        self._cumulative = grid

    def windows(self, bins: pa.Table, after: int, until: int) -> pa.Table:
        """A row per key and window whose last instant lies in (after, until], the oldest first; bins occur once each."""
        grid = self._cumulative
        # The last bin of a window ends with it.
        first, last = grid.number(after + 1), grid.number(until + 1) - 1
        starts: Times = np.asarray(bins.column(BIN).combine_chunks())
        numbers, opens = grid.numbers(starts), grid.numbers(grid.first_of(starts))
        # A bin counts in all later windows of its round, up to the one that ends with bin `opens + span - 1`.
        is_needed = (numbers <= last) & (opens + grid.span > first)
        place = bins.schema.get_field_index(BIN)
        sums = bins.set_column(place, START, pa.array(numbers)).filter(pa.array(is_needed))
        if sums.num_rows == 0:
            return sums
        # Time may go on to its end: results are not carried beyond the last window that any of these bins is in.
        last = min(last, int(opens[is_needed].max()) + grid.span - 1)
        reach = 1
        while reach < grid.span:
            # The earlier half stands first: `first` and `last` go by the order of rows.
            sums = self._accumulators.merge(pa.concat_tables([self._later(sums, reach, last), sums]), self._by)
            reach *= 2
        numbers = _numbers(sums)
        chosen = np.flatnonzero((numbers >= first) & (numbers <= last))
        chosen = chosen[np.argsort(numbers[chosen], kind="stable")]
        named = pa.array(grid.numbered(numbers[chosen]))
        return sums.take(pa.array(chosen)).set_column(sums.schema.get_field_index(START), START, named)

    def _later(self, sums: pa.Table, bins: int, last: int) -> pa.Table:
        """Results counted for windows that end so many bins later, as far as those begin together with them."""
        grid, numbers = self._cumulative, _numbers(sums)
        begun = grid.first_of(grid.numbered(numbers))
        is_there = (numbers + bins <= last) & (begun == grid.first_of(grid.numbered(numbers + bins)))
        place = sums.schema.get_field_index(START)
        return sums.set_column(place, START, pa.array(numbers + bins)).filter(pa.array(is_there))

    def bounds(self, windows: pa.Table) -> tuple[Times, Times]:
        """Starts and ends of windows."""
        bins = _numbers(windows)
        return self._cumulative.first_of(bins), self._cumulative.all_later(bins, 1)


def _numbers(table: pa.Table) -> Times:
    numbers: Times = np.asarray(table.column(START).combine_chunks())
    return numbers


def sums_of(grid: Grid, accumulators: Accumulators, keys: tuple[str, ...]) -> WindowSums:
    """What puts together the windows of a grid."""
    if isinstance(grid, CumulativeGrid):
        return CumulativeSums(grid, accumulators, keys)
    return WindowSums(grid, accumulators, keys)
