"""Two columns of partial results merged value by value: the earlier and the later one of each pair, null where one has none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 2**63 - 1


class MergedColumn(NamedTuple):
    """A column of partial results, and Arrow's name of the aggregate that merges its values."""

    name: str
    merge: str
    type: pa.DataType


def _sum(earlier: pa.Array, later: pa.Array) -> pa.Array:
    both = pc.add(earlier, later)
    # With null Arrow's sum is null, but here null only says that one of the two has nothing to add.
    return pc.coalesce(both, earlier, later) if both.null_count else both


def _min(earlier: pa.Array, later: pa.Array) -> pa.Array:
    return pc.min_element_wise(_ordered(earlier), _ordered(later)).view(earlier.type)


def _max(earlier: pa.Array, later: pa.Array) -> pa.Array:
    most = pc.max_element_wise(_ordered(earlier), _ordered(later)).view(earlier.type)
    if not may_have_nan(earlier) and not may_have_nan(later):
        return most
    # NaN is the largest number, as in Spark; Arrow passes it over.
    is_nan = [pc.fill_null(pc.is_nan(column), pa.scalar(value=False)) for column in (earlier, later)]
    return pc.if_else(pc.or_(*is_nan), pa.scalar(math.nan, most.type), most)


def _ordered(column: pa.Array) -> pa.Array:
    """Arrow compares timestamps of a zone only as numbers."""
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _first(earlier: pa.Array, later: pa.Array) -> pa.Array:
    return pc.coalesce(earlier, later)


def _last(earlier: pa.Array, later: pa.Array) -> pa.Array:
    return pc.coalesce(later, earlier)


MERGES: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "sum": _sum,
    "min": _min,
    "max": _max,
    "first": _first,
    "last": _last,
}
_NUMBERS = (pa.types.is_integer, pa.types.is_floating)
_MERGED: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    # A sum of decimals is wider than what is added, each time.
    "sum": _NUMBERS,
    "min": (*_NUMBERS, pa.types.is_decimal, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp),
}
_MERGED["max"] = _MERGED["min"]
"""Types that Arrow merges value by value; the first and the last it has of every type."""


def are_pairable(parts: Sequence[MergedColumn]) -> bool:
    """Whether Arrow merges all of these columns value by value."""
    return all(
        part.merge in MERGES and (part.merge not in _MERGED or any(is_of(part.type) for is_of in _MERGED[part.merge]))
        for part in parts
    )


def may_overflow(table: pa.Table, parts: Sequence[MergedColumn], values: int) -> bool:
    """Whether a sum of so many values might not fit its integers."""
    summed = [part.name for part in parts if part.merge == "sum" and pa.types.is_integer(part.type)]
    return any(largest(table.column(name)) * values > LONGEST for name in summed)


def may_have_nan(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column may hold NaN; a sum tells in a fraction of the time that it takes to look at each value."""
    if not pa.types.is_floating(column.type):
        return False
    # Infinities of both signs add up to NaN as well, and cost a closer look that finds nothing.
    total = pc.sum(column).as_py()
    return total is not None and math.isnan(total)


def largest(column: pa.ChunkedArray) -> int:
    """How far the integers of a column are from zero at most."""
    # As Python's numbers, which do not wrap around: the least integer of 64 bits has no opposite among them.
    bounds = pc.min_max(column).as_py()
    return 0 if bounds["min"] is None else max(-bounds["min"], bounds["max"])


class Cells(NamedTuple):
    """Partial results side by side, some of them missing."""

    is_there: np.ndarray[tuple[int], np.dtype[np.bool_]]
    columns: list[pa.Array]

    def behind(self, count: int, length: int) -> Cells:
        """So many cells from a place on."""
        return Cells(self.is_there[count : count + length], [column.slice(count, length) for column in self.columns])

    def merged(self, later: Cells, parts: Sequence[MergedColumn]) -> Cells:
        """Each cell with the one that stands at its place among the later ones."""
        columns = [
            MERGES[part.merge](mine, theirs)
            for part, mine, theirs in zip(parts, self.columns, later.columns, strict=True)
        ]
        return Cells(self.is_there | later.is_there, columns)
