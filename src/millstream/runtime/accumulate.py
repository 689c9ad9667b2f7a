"""Built-in aggregates, twice: vectorised over Arrow tables, and value by value for operators that go row by row."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.aggregate import AGGREGATES, Aggregate
from millstream.graph.expression import Expression
from millstream.model.schema import HIDDEN, Field, Schema
from millstream.runtime.batch import TIME
from millstream.runtime.expressions import Projection
from millstream.runtime.python_types import python_type, tuple_of

_INPUT, _PART = HIDDEN + "in", HIDDEN + "part"


class Accumulators:
    """The aggregates of one step over Arrow tables.

    Rows are first combined into partial results (on the sending side), partial results are merged with those in state,
    and merged ones become output columns. Combining keeps the order of rows, for `first` and `last`. With `keeps_time` the
    newest event time of a group is kept beside its results.
    """

    def __init__(
        self,
        aggregates: Sequence[tuple[str, Aggregate]],
        expressions: Sequence[tuple[str, Expression]],
        outputs: Sequence[Field],
        *,
        keeps_time: bool = False,
    ) -> None:
        self._inputs = Projection([(f"{_INPUT}{name}", expression) for name, expression in expressions])
        self._outputs = list(outputs)
        self._parts: list[tuple[str, str, str, pa.DataType]] = []
        self._merges: list[tuple[str, str]] = []
        self._parts_of: list[list[str]] = []
        types = {name: expression.type for name, expression in expressions}
        for place, (name, aggregate) in enumerate(aggregates):
            of = types.get(name)
            names = []
            for number, (combine, merge) in enumerate(AGGREGATES[aggregate.kind].parts):
                part = f"{_PART}{place}_{number}"
                names.append(part)
                kind = _part_type(combine, of)
                self._parts.append((part, f"{_INPUT}{name}" if of is not None else "", combine, kind))
                self._merges.append((part, merge))
            self._parts_of.append(names)
        if keeps_time:
            self._parts.append((TIME, TIME, "max", pa.int64()))
            self._merges.append((TIME, "max"))

    @property
    def part_fields(self) -> list[pa.Field]:
        """The columns of partial results."""
        return [pa.field(name, kind) for name, _, _, kind in self._parts]

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """The values to aggregate, one column per expression."""
        made = self._inputs.apply(rows)
        return list(zip(made.schema.names, made.columns, strict=True))

    def combine(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of rows: one row per group, in the order groups first occur."""
        wanted = [((of, combine) if of else ([], "count_all")) for _, of, combine, _ in self._parts]
        made = table.group_by(by, use_threads=False).aggregate(wanted)
        columns = [made.column(f"{of}_{combine}" if of else "count_all") for _, of, combine, _ in self._parts]
        return self._typed(made, by, columns)

    def merge(self, table: pa.Table, by: list[str], extra: list[tuple[str, str]] | None = None) -> pa.Table:
        """Partial results of partial results; `extra` are further (column, function) to keep."""
        extra = extra or []
        made = table.group_by(by, use_threads=False).aggregate([*self._merges, *extra])
        columns = [made.column(f"{part}_{merge}") for part, merge in self._merges]
        merged = self._typed(made, by, columns)
        for column, function in extra:
            merged = merged.append_column(column, made.column(f"{column}_{function}"))
        return merged

    def _typed(self, made: pa.Table, by: list[str], columns: list[pa.ChunkedArray]) -> pa.Table:
        parts = [column.cast(kind) for column, (_, _, _, kind) in zip(columns, self._parts, strict=True)]
        names = by + [name for name, _, _, _ in self._parts]
        return pa.table([*(made.column(key) for key in by), *parts], names=names)

    def results(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The output columns of merged partial results."""
        return [
            _result([table.column(name) for name in names], field.type)
            for names, field in zip(self._parts_of, self._outputs, strict=True)
        ]


def _part_type(combine: str, of: pa.DataType | None) -> pa.DataType:
    if combine == "count" or of is None:
        return pa.int64()
    return AGGREGATES[combine].gives(of)


def _result(parts: list[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    if len(parts) == 1:
        return parts[0].cast(kind)
    total, count = parts
    if pa.types.is_decimal(kind):
        values = [decimal_mean(s, n, kind.scale) for s, n in zip(total.to_pylist(), count.to_pylist(), strict=True)]
        return pa.chunked_array([pa.array(values, kind)])
    return pc.divide(total.cast(pa.float64()), count.cast(pa.float64()))


def decimal_mean(total: decimal.Decimal | None, count: int, scale: int) -> decimal.Decimal | None:
    """The mean rounded half up to a scale, as Spark rounds it."""
    if total is None or count == 0:
        return None
    with decimal.localcontext(prec=76):
        return (total / count).quantize(decimal.Decimal(1).scaleb(-scale), rounding=decimal.ROUND_HALF_UP)


# Value by value: an accumulator is `None` until the first non-null value.

_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda held, value: held + value,
    "min": min,
    "max": max,
    "first": lambda held, _: held,
    "last": lambda _, value: value,
}


class ValueAccumulators:
    """The same aggregates for one key at a time; a state is a list with one item per aggregate."""

    def __init__(
        self,
        aggregates: Sequence[tuple[str, Aggregate]],
        expressions: Sequence[tuple[str, Expression]],
        outputs: Sequence[Field],
    ) -> None:
        names = [name for name, _ in expressions]
        self.projection = Projection(list(expressions)) if expressions else None
        self._plan = [
            (aggregate.kind, names.index(name) if name in names else None, field.type)
            for (name, aggregate), field in zip(aggregates, outputs, strict=True)
        ]
        types = {name: expression.type for name, expression in expressions}
        self.state_types = [_state_type(aggregate.kind, types.get(name)) for name, aggregate in aggregates]

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """The values of each row, in the order of the expressions."""
        if self.projection is None:
            return [()] * rows.num_rows
        made = self.projection.apply(rows)
        return list(zip(*(column.to_pylist() for column in made.columns), strict=True))

    def empty(self) -> list[Any]:
        """The state before any row."""
        return [0 if kind == "count" else [None, 0] if kind == "avg" else None for kind, _, _ in self._plan]

    def add(self, state: list[Any], values: tuple[Any, ...]) -> None:
        """Add one row's values."""
        for place, (kind, of, _) in enumerate(self._plan):
            value = 1 if of is None else values[of]
            if value is None:
                continue
            if kind == "count":
                state[place] += 1
            elif kind == "avg":
                total, count = state[place]
                state[place] = [value if total is None else total + value, count + 1]
            else:
                state[place] = value if state[place] is None else _ADD[kind](state[place], value)

    def merge(self, state: list[Any], other: list[Any]) -> None:
        """Add another state, whose rows came later."""
        for place, (kind, _, _) in enumerate(self._plan):
            mine, theirs = state[place], other[place]
            if kind == "count":
                state[place] = mine + theirs
            elif kind == "avg":
                totals = [total for total in (mine[0], theirs[0]) if total is not None]
                state[place] = [sum(totals[1:], totals[0]) if totals else None, mine[1] + theirs[1]]
            elif theirs is not None:
                state[place] = theirs if mine is None else _ADD[kind](mine, theirs)

    def results(self, state: list[Any]) -> list[Any]:
        """The output values."""
        return [
            _mean(held, out) if kind == "avg" else held for held, (kind, _, out) in zip(state, self._plan, strict=True)
        ]


def _mean(held: list[Any], kind: pa.DataType) -> Any:
    total, count = held
    if count == 0:
        return None
    return decimal_mean(total, count, kind.scale) if pa.types.is_decimal(kind) else float(total) / count


def _state_type(kind: str, of: pa.DataType | None) -> Any:
    if kind == "count" or of is None:
        return int
    value = python_type(AGGREGATES["sum" if kind == "avg" else kind].gives(of))
    return tuple_of(value, int) if kind == "avg" else value


def output_fields(schema: Schema, names: Sequence[str]) -> list[Field]:
    """The output columns of the named aggregates."""
    return [schema[name] for name in names]


def owned(values: pa.ChunkedArray | pa.Array) -> np.ndarray[Any, Any]:
    """Integers of a column without nulls as numpy."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return np.asarray(values)
