"""What windows come to, from the partial results of their bins.

Blocks of one bin make blocks of two, of four, of eight; a window is put together from one block for each bit of its span. So
the work for many windows grows with the logarithm of the span and not with the span: a slide may be short.

Where most keys have rows in most bins, the bins of a key lie side by side with room for those that it lacks: then a block
stands a fixed number of places from the block behind it, and none is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import HIDDEN
from millstream.runtime.exchange.combining import BIN
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.grouping import key_codes
from millstream.runtime.operators.window.grid import Grid, Times
from millstream.runtime.operators.window.pairwise import Cells, are_pairable, may_overflow

START = HIDDEN + "start"
"""The column with the start of a block or a window; while blocks are merged, with its number."""
_ROOM = 8
"""So many times the room that the bins need is taken to have them side by side."""

_Blocks = TypeVar("_Blocks")


class _Wanted(NamedTuple):
    """The first and the last window."""

    first: int
    last: int


class WindowSums:
    """Puts together the windows of one step."""

    def __init__(self, grid: Grid, accumulators: Accumulators, keys: tuple[str, ...]) -> None:
        self._grid, self._accumulators, self._keys, self._by = grid, accumulators, keys, [*keys, START]
        self._parts = accumulators.parts
        # A window of one bin is that bin.
        self._is_pairable = grid.span > 1 and are_pairable(self._parts)

    def once(self, bins: pa.Table) -> pa.Table:
        """Bins of which some may occur more than once."""
        return self._accumulators.merge(bins, [*self._keys, BIN])

    def merged(self, known: pa.Table, came: pa.Table) -> pa.Table:
        """Bins that are known and bins that came; most rows are of the newest bins, so most bins stay as they are."""
        known_bins, reach = known.column(BIN), pc.min_max(came.column(BIN))
        is_near = pc.and_(pc.greater_equal(known_bins, reach["min"]), pc.less_equal(known_bins, reach["max"]))
        merged = self._accumulators.merge(pa.concat_tables([known.filter(is_near), came]), [*self._keys, BIN])
        return pa.concat_tables([known.filter(pc.invert(is_near)), merged])

    def windows(self, bins: pa.Table, after: int, until: int) -> pa.Table:
        """A row per key and window whose last instant lies in (after, until], the oldest first; bins occur once each."""
        span = self._grid.span
        numbers = self._grid.numbers(np.asarray(bins.column(BIN).combine_chunks()))
        # The last instant of a window comes right before its end, which is where bin `start + span` begins.
        first, last = self._grid.number(after + 1) + 1 - span, self._grid.number(until + 1) - span
        is_needed = (numbers >= first) & (numbers < last + span)
        place = bins.schema.get_field_index(BIN)
        blocks = bins.set_column(place, START, pa.array(numbers)).filter(pa.array(is_needed))
        if blocks.num_rows == 0:
            return blocks
        numbers = numbers[is_needed]
        # Time may come from before all rows, or go on to its end: no more windows are counted than bins reach into.
        wanted = _Wanted(max(first, int(numbers.min()) + 1 - span), min(last, int(numbers.max())))
        windows = self._side_by_side(blocks, numbers, wanted)
        if windows is None:
            windows = self._looked_for(blocks, wanted)
        numbers = np.asarray(windows.column(START).combine_chunks())
        order = np.argsort(numbers, kind="stable")
        starts = pa.array(self._grid.numbered(numbers[order]))
        return windows.take(pa.array(order)).set_column(windows.schema.get_field_index(START), START, starts)

    def bounds(self, windows: pa.Table) -> tuple[Times, Times]:
        """Starts and ends of windows."""
        starts: Times = np.asarray(windows.column(START).combine_chunks())
        return starts, self._grid.all_later(starts, self._grid.span)

    def _looked_for(self, blocks: pa.Table, wanted: _Wanted) -> pa.Table:
        """Windows of blocks that are found by their keys and numbers."""

        def earlier(blocks: pa.Table, count: int) -> pa.Table:
            """Blocks counted for starts so many bins before their own; those before the first window are left out."""
            starts = np.asarray(blocks.column(START).combine_chunks()) - count
            place = blocks.schema.get_field_index(START)
            return blocks.set_column(place, START, pa.array(starts)).filter(pa.array(starts >= wanted.first))

        def merged(blocks: pa.Table, later: pa.Table) -> pa.Table:
            return self._accumulators.merge(pa.concat_tables([blocks, later]), self._by)

        pieces = list(_pieces(blocks, self._grid.span, earlier, merged))
        windows = self._accumulators.merge(pa.concat_tables(pieces), self._by) if len(pieces) > 1 else pieces[0]
        return windows.filter(pa.array(np.asarray(windows.column(START).combine_chunks()) <= wanted.last))

    def _side_by_side(self, blocks: pa.Table, numbers: Times, wanted: _Wanted) -> pa.Table | None:
        """Windows of blocks that lie side by side; `None` if they cannot."""
        span, count = self._grid.span, wanted.last + 1 - wanted.first
        if not self._is_pairable or may_overflow(blocks, self._parts, span):
            return None
        # Beside a cell for the start of each window, the last one needs those that it reaches into.
        width = count + span - 1
        keys, room = key_codes(blocks, self._keys)
        if room * width > _ROOM * blocks.num_rows:
            # The codes of several columns leave room for combinations that do not occur; to close the gaps takes a sort.
            codes, keys = np.unique(keys, return_inverse=True)
            room = len(codes)
        if room * width > _ROOM * blocks.num_rows:
            return None
        rows = np.full(room * width, -1, np.int64)
        rows[keys * width + (numbers - wanted.first)] = np.arange(blocks.num_rows)
        windows = self._paired(_spread(blocks, rows, [part.name for part in self._parts]))
        places = np.flatnonzero(windows.is_there & (np.arange(len(windows.is_there)) % width < count))
        examples = np.zeros(room, np.int64)
        # Any row of a key tells what the key is; the last one written stays.
        examples[keys] = np.arange(blocks.num_rows)
        named = blocks.select(list(self._keys)).take(pa.array(examples[places // width]))
        made = named.append_column(START, pa.array(wanted.first + places % width))
        for part, column in zip(self._parts, windows.columns, strict=True):
            made = made.append_column(part.name, column.take(pa.array(places)))
        return made

    def _paired(self, cells: Cells) -> Cells:
        """Windows by their first cells. Where a key's cells end, those of the next come in, but no window begins there."""
        span = self._grid.span
        windows = len(cells.is_there) - (span - 1)

        def earlier(cells: Cells, count: int) -> Cells:
            return cells.behind(count, len(cells.is_there) - count)

        def merged(cells: Cells, later: Cells) -> Cells:
            return cells.behind(0, len(later.is_there)).merged(later, self._parts)

        pieces = [piece.behind(0, windows) for piece in _pieces(cells, span, earlier, merged)]
        made = pieces[0]
        for piece in pieces[1:]:
            made = made.merged(piece, self._parts)
        return made


def _pieces(
    blocks: _Blocks,
    span: int,
    earlier: Callable[[_Blocks, int], _Blocks],
    merged: Callable[[_Blocks, _Blocks], _Blocks],
) -> Iterator[_Blocks]:
    """The blocks that windows are made of, counted for the starts of the windows, the earliest first."""
    covered = 0
    for power in range(span.bit_length()):
        length = 1 << power
        if span & length:
            yield earlier(blocks, covered)
            covered += length
        if covered < span:
            # The earlier half stands first: `first` and `last` go by the order of rows.
            blocks = merged(blocks, earlier(blocks, length))


def _spread(blocks: pa.Table, rows: Times, names: list[str]) -> Cells:
    """The cells in which rows stand, -1 where none does."""
    is_there = rows >= 0
    places = pa.array(rows, mask=~is_there)
    return Cells(is_there, [blocks.column(name).combine_chunks().take(places) for name in names])
