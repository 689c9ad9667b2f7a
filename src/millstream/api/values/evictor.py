"""Evictors: which of a window's rows a firing sees. Import it as `ms.evictor`.

With `when="before"` an evictor works on a copy of the rows: the next firing has them again. With `when="after"` the
firing sees all rows, and what is evicted then is gone for the firings behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.graph.function import function_ref
from millstream.graph.windows.evictor import EvictorSpec, When
from millstream.model.time import DurationLike, positive_ms

__all__ = ["count", "custom", "delta", "time"]


def count(rows: int, *, when: When = "before") -> EvictorSpec:
    """Keep the last so many rows."""
    return EvictorSpec(kind="count", rows=rows, when=when)


def time(keep: DurationLike, *, when: When = "before") -> EvictorSpec:
    """Keep rows that are less than `keep` older than the newest; without event time the epoch's clock counts."""
    return EvictorSpec(kind="time", keep=positive_ms(keep, what="keep"), when=when)


def delta(
    of: str | Callable[[dict[str, Any], dict[str, Any]], float], threshold: float, *, when: When = "before"
) -> EvictorSpec:
    """Keep rows that differ by less than a threshold from the last one.

    Args:
        of: a column of numbers, or `function(row, last)` that gives the difference.
        threshold: rows that differ by that much or more are evicted, and so are rows without a value.
        when: `before` or `after` a firing.
    """
    if isinstance(of, str) and ":" not in of:
        return EvictorSpec(kind="delta", column=of, threshold=threshold, when=when)
    return EvictorSpec(kind="delta", function=function_ref(of), threshold=threshold, when=when)


def custom(
    function: Callable[[list[dict[str, Any]], Any], list[dict[str, Any]]] | str, *, when: When = "before"
) -> EvictorSpec:
    """Keep the rows that `function(rows, window)` returns; it returns some of the rows it got, in their order."""
    return EvictorSpec(kind="custom", function=function_ref(function), when=when)
