"""Sources whose rows are numbered: how far a range grows by credit and clock, and how it is cut into splits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from millstream.contract.source import Advance, Position, Split

BLOCK = 8192
"""Ranges are cut at multiples of it where they are long enough."""


def advanced(start: Position, credit: int, *, rows: int | None, per_second: float | None, now: int) -> Advance:
    """Read on from `start` (`row`, and `since` when paced) by at most `credit` rows.

    Args:
        start: the position; `since` is the instant from which the pace counts.
        credit: rows to read at most.
        rows: how many rows there are; without it, no end.
        per_second: the pace; without it, all rows are there at once.
        now: milliseconds since 1970.
    """
    there = rows
    if per_second is not None:
        due = max(0, int((now - start["since"]) * per_second / 1000))
        there = due if rows is None else min(due, rows)
    end = start["row"] + max(0, credit)
    if there is not None:
        end = max(start["row"], min(end, there))
    return Advance(
        position={**start, "row": end},
        finished=rows is not None and end >= rows,
        lag=None if there is None else max(0, there - end),
    )


def range_splits(start: Position, end: Position, parallelism: int) -> list[Split]:
    """About equal ranges, one for each parallel reader, in order."""
    first, last = start["row"], end["row"]
    fixed = {name: value for name, value in start.items() if name != "row"}
    cuts = [first, *_cuts(first, last, parallelism), last]
    pairs = [(low, high) for low, high in itertools.pairwise(cuts) if low < high]
    return [Split("0", {**fixed, "first": low, "end": high}, high - low) for low, high in pairs]


def _cuts(first: int, last: int, parallelism: int) -> Iterator[int]:
    for piece in range(1, parallelism):
        cut = first + (last - first) * piece // parallelism
        yield max(first, cut - cut % BLOCK) if last - first >= parallelism * BLOCK else cut


def pieces(split: Any, size: int) -> Iterator[tuple[int, int]]:
    """The range of a split in pieces of at most `size` rows, cut at multiples of it."""
    low, end = split["first"], split["end"]
    while low < end:
        high = min(end, (low // size + 1) * size)
        yield low, high
        low = high
