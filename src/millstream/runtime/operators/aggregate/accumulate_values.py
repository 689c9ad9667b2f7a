"""Built-in aggregates value by value, for operators that go row by row; one is `None` until its first non-null value."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.graph.expressions.expression import Expression
from millstream.graph.operations.aggregate import AGGREGATES, Aggregate, where_name
from millstream.model.schema import Field
from millstream.records.value_types import python_type, set_of, tuple_of
from millstream.runtime.operators.aggregate.accumulate import INPUT, decimal_mean, input_type, overflow
from millstream.runtime.operators.aggregate.inputs import AggregateInputs
from millstream.runtime.operators.window.pairwise import LONGEST

_EXACT = decimal.Context(prec=76)


def _plus(held: Any, value: Any) -> Any:
    return _EXACT.add(held, value) if type(value) is decimal.Decimal else held + value


_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _plus,
    # NaN is the largest number.
    "min": lambda held, value: value if value < held or held != held else held,  # noqa: PLR0124
    "max": lambda held, value: value if value > held or value != value else held,  # noqa: PLR0124
    "first": lambda held, _: held,
    "last": lambda _, value: value,
}


_EMPTY: dict[str, Callable[[], Any]] = {"count": int, "count_distinct": set, "avg": lambda: [None, 0]}
"""Other aggregates begin with nothing."""


class ValueAccumulators:
    """The same aggregates for one key at a time; a state is a list with one item per aggregate, changed in place."""

    def __init__(
        self,
        aggregates: Sequence[tuple[str, Aggregate]],
        expressions: Sequence[tuple[str, Expression]],
        outputs: Sequence[Field],
        *,
        step: str,
    ) -> None:
        self._step = step
        self._inputs = AggregateInputs(INPUT, step)
        named = dict(expressions)
        self._plan = [
            (aggregate.kind, self._place(named.get(name), named.get(where_name(name))), field.type)
            for (name, aggregate), field in zip(aggregates, outputs, strict=True)
        ]
        types = {name: expression.type for name, expression in expressions}
        self.state_types = [_state_type(aggregate.kind, types.get(name)) for name, aggregate in aggregates]

    def _place(self, of: Expression | None, where: Expression | None) -> int | None:
        """Which of a row's values an aggregate takes; `None` where it counts every row."""
        if of is None and where is None:
            return None
        name = self._inputs.add(of, where, pa.bool_() if of is None else of.type)
        return self._inputs.names.index(name)

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The values that the aggregates take of each row."""
        if not self._inputs.names:
            return [()] * rows.num_rows
        return list(zip(*(column.to_pylist() for column in self._inputs.columns(rows)), strict=True))

    @property
    def input_types(self) -> list[Any]:
        """The Python types of those values."""
        return [python_type(kind) for kind in self._inputs.types]

    @property
    def depends_on_order(self) -> bool:
        """Whether it matters which rows came first."""
        return any(kind in {"first", "last"} for kind, _, _ in self._plan)

    def empty(self) -> list[Any]:
        """The state before any row."""
        return [_EMPTY[kind]() if kind in _EMPTY else None for kind, _, _ in self._plan]

    def add(self, state: list[Any], values: tuple[Any, ...]) -> None:
        """Add one row's values."""
        for place, (kind, of, _) in enumerate(self._plan):
            value = 1 if of is None else values[of]
            if value is None:
                continue
            if kind == "count":
                state[place] += 1
            elif kind == "count_distinct":
                # Null stands for NaN, which does not equal itself.
                state[place].add(value if value == value else None)  # noqa: PLR0124
            elif kind == "avg":
                total, count = state[place]
                value = value if type(value) is decimal.Decimal else float(value)
                state[place] = [value if total is None else _plus(total, value), count + 1]
            else:
                state[place] = value if state[place] is None else self._added(kind, state[place], value)

    def merge(self, state: list[Any], other: list[Any]) -> None:
        """Add another state, whose rows came later."""
        for place, (kind, _, _) in enumerate(self._plan):
            mine, theirs = state[place], other[place]
            if kind == "count":
                state[place] = mine + theirs
            elif kind == "count_distinct":
                mine |= theirs
            elif kind == "avg":
                totals = [total for total in (mine[0], theirs[0]) if total is not None]
                state[place] = [functools.reduce(_plus, totals) if totals else None, mine[1] + theirs[1]]
            elif theirs is not None:
                state[place] = theirs if mine is None else self._added(kind, mine, theirs)

    def _added(self, kind: str, held: Any, value: Any) -> Any:
        made = _ADD[kind](held, value)
        if kind == "sum" and type(made) is int and not -LONGEST - 1 <= made <= LONGEST:
            raise overflow(self._step, str(made))
        return made

    def results(self, state: list[Any]) -> list[Any]:
        """The output values."""
        return [
            _mean(held, out) if kind == "avg" else len(held) if kind == "count_distinct" else held
            for held, (kind, _, out) in zip(state, self._plan, strict=True)
        ]


def _mean(held: list[Any], kind: pa.DataType) -> Any:
    total, count = held
    if count == 0:
        return None
    return decimal_mean(total, count, kind.scale) if pa.types.is_decimal(kind) else float(total) / count


def _state_type(kind: str, of: pa.DataType | None) -> Any:
    if kind == "count" or of is None:
        return int
    if kind == "count_distinct":
        return set_of(python_type(of))
    if kind == "avg":
        return tuple_of(python_type(AGGREGATES["sum"].gives(input_type(kind, of))), int)
    return python_type(AGGREGATES[kind].gives(of))
