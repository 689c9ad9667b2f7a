"""Values that conditions and measures take from the rows of a match: first, last, count, sum, avg, min, max."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.graph.patterns.match_expression import NAVIGATION, Reference
from millstream.runtime.operators.aggregate.accumulate import decimal_mean
from millstream.runtime.operators.pattern.buffer import BufferNode, HeldEvent, Row

_EXACT = decimal.Context(prec=76)
Value = Callable[[BufferNode | None, HeldEvent], Any]
"""What a reference gives for a chain and the row under test."""


class StageFold:
    """A running value over one column of one stage; null does not count in aggregates, but a first or last row may be."""

    __slots__ = ("_add", "_scale", "column", "initial", "kind", "stage")

    def __init__(self, reference: Reference, stage: int, column: int | None, result: pa.DataType) -> None:
        self.kind, self.stage, self.column = reference.kind, stage, column
        self.initial: Any = _INITIAL.get(self.kind)
        self._scale = result.scale if pa.types.is_decimal(result) else None
        self._add = _ADD[self.kind]

    def added(self, held: Any, row: Row) -> Any:
        """The aggregate with one more row."""
        if self.column is None:
            return held + 1
        value = row[self.column]
        return held if value is None and self.kind not in NAVIGATION else self._add(held, value)

    def result(self, held: Any) -> Any:
        """The value of the aggregate."""
        if self.kind == "first":
            return held[0] if held else None
        if self.kind != "avg":
            return held
        total, count = held
        if count == 0:
            return None
        return total / count if self._scale is None else decimal_mean(total, count, self._scale)


def _plus(held: Any, value: Any) -> Any:
    if held is None:
        return value
    return _EXACT.add(held, value) if type(value) is decimal.Decimal else held + value


def _mean(held: Any, value: Any) -> Any:
    # Means of integers add doubles, as the built-in aggregate does.
    return _plus(held[0], value if type(value) is decimal.Decimal else float(value)), held[1] + 1


_INITIAL: dict[str, Any] = {"count": 0, "avg": (None, 0), "first": ()}
_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda held, _: held + 1,
    "sum": _plus,
    "avg": _mean,
    "min": lambda held, value: value if held is None or value < held else held,
    "max": lambda held, value: value if held is None or value > held else held,
    "first": lambda held, value: held or (value,),
    "last": lambda _, value: value,
}


def value_of(
    reference: Reference, stage: int, column: int | None, own: int, fold: tuple[int, StageFold] | None
) -> Value:
    """How a condition of stage `own` gets a reference; the row under test counts as a row of that stage."""
    if fold is not None:
        return _folded(*fold, is_own=stage == own)
    assert column is not None, f"{reference.name} is no aggregate"
    if reference.kind == "first":
        return _first(stage, column, reference.offset, is_own=stage == own)
    return _last(stage, column, reference.offset, is_own=stage == own)


def _folded(place: int, fold: StageFold, *, is_own: bool) -> Value:
    def value(node: BufferNode | None, event: HeldEvent) -> Any:
        held = fold.initial if node is None else node.folds[place]
        return fold.result(fold.added(held, event.row) if is_own else held)

    return value


def _last(stage: int, column: int, offset: int, *, is_own: bool) -> Value:
    def value(node: BufferNode | None, event: HeldEvent) -> Any:
        missing = offset
        if is_own:
            if missing == 0:
                return event.row[column]
            missing -= 1
        while node is not None:
            if node.stage == stage:
                if missing == 0:
                    return node.event.row[column]
                missing -= 1
            node = node.before
        return None

    return value


def _first(stage: int, column: int, offset: int, *, is_own: bool) -> Value:
    def value(node: BufferNode | None, event: HeldEvent) -> Any:
        taken = []
        while node is not None:
            if node.stage == stage:
                taken.append(node.event)
            node = node.before
        taken.reverse()
        if is_own:
            taken.append(event)
        return taken[offset].row[column] if offset < len(taken) else None

    return value


Measured = Callable[[list[list[Row]]], Any]
"""What a reference gives for a whole match, from its rows by stage."""


def measured(reference: Reference, stage: int, column: int | None, result: pa.DataType) -> Measured:
    """How a measure gets a reference."""
    if is_fold(reference):
        return _aggregated(StageFold(reference, stage, column, result), stage)
    assert column is not None, f"{reference.name} is no aggregate"
    offset = reference.offset
    place = offset if reference.kind == "first" else -1 - offset

    def value(taken: list[list[Row]]) -> Any:
        rows = taken[stage]
        return rows[place][column] if offset < len(rows) else None

    return value


def _aggregated(fold: StageFold, stage: int) -> Measured:
    if fold.column is None:
        return lambda taken: len(taken[stage])

    def value(taken: list[list[Row]]) -> Any:
        held = fold.initial
        for row in taken[stage]:
            held = fold.added(held, row)
        return fold.result(held)

    return value


def is_fold(reference: Reference) -> bool:
    """Whether a reference runs over all rows of its stage."""
    return reference.kind not in NAVIGATION


def is_kept(reference: Reference) -> bool:
    """Whether a condition has a reference at hand with every row; others are looked for along the chain."""
    return is_fold(reference) or reference.offset == 0
