"""Built-in aggregates, twice: vectorised over Arrow tables, and value by value for operators that go row by row."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.graph.aggregate import AGGREGATES, Aggregate
from millstream.graph.expression import Expression
from millstream.model.schema import HIDDEN, Field
from millstream.runtime.batch import TIME
from millstream.runtime.chain import evaluated
from millstream.runtime.expressions import Projection
from millstream.runtime.python_types import python_type, tuple_of

_INPUT, _PART = HIDDEN + "in", HIDDEN + "part"
_LONGEST = 2**63 - 1
_EXACT = decimal.Context(prec=76)


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
        step: str,
        keeps_time: bool = False,
    ) -> None:
        self._step, self.keeps_time = step, keeps_time
        self._inputs = Projection([(f"{_INPUT}{name}", expression) for name, expression in expressions])
        self._outputs = list(outputs)
        self._parts: list[tuple[str, str, str, pa.DataType]] = []
        self._merges: list[tuple[str, str]] = []
        self._parts_of: list[list[str]] = []
        kinds = dict(aggregates)
        types = {name: _input_type(kinds[name].kind, expression.type) for name, expression in expressions}
        self._input_types = list(types.values())
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
        made = evaluated(self._step, self._inputs.apply, rows)
        columns = [column.cast(kind, safe=False) for column, kind in zip(made.columns, self._input_types, strict=True)]
        return list(zip(made.schema.names, columns, strict=True))

    def combine(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of rows: one row per group, in the order groups first occur."""
        wanted = [((of, combine) if of else ([], "count_all")) for _, of, combine, _ in self._parts]
        table = _roomy(table, [of for _, of, combine, _ in self._parts if combine == "sum"])
        made = table.group_by(by, use_threads=False).aggregate(wanted)
        columns = [made.column(f"{of}_{combine}" if of else "count_all") for _, of, combine, _ in self._parts]
        return self._typed(made, by, columns)

    def merge(self, table: pa.Table, by: list[str], extra: list[tuple[str, str]] | None = None) -> pa.Table:
        """Partial results of partial results; `extra` are further (column, function) to keep."""
        extra = extra or []
        table = _roomy(table, [part for part, merge in self._merges if merge == "sum"])
        made = table.group_by(by, use_threads=False).aggregate([*self._merges, *extra])
        columns = [made.column(f"{part}_{merge}") for part, merge in self._merges]
        merged = self._typed(made, by, columns)
        for column, function in extra:
            merged = merged.append_column(column, made.column(f"{column}_{function}"))
        return merged

    def _typed(self, made: pa.Table, by: list[str], columns: list[pa.ChunkedArray]) -> pa.Table:
        try:
            parts = [column.cast(kind) for column, (_, _, _, kind) in zip(columns, self._parts, strict=True)]
        except pa.ArrowInvalid as problem:
            raise _overflow(self._step, str(problem)) from problem
        names = by + [name for name, _, _, _ in self._parts]
        return pa.table([*(made.column(key) for key in by), *parts], names=names)

    def results(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The output columns of merged partial results."""
        try:
            return [
                _result([table.column(name) for name in names], field.type)
                for names, field in zip(self._parts_of, self._outputs, strict=True)
            ]
        except pa.ArrowInvalid as problem:
            raise _overflow(self._step, str(problem)) from problem


def _overflow(step: str, found: str) -> StepFailed:
    msg = "a sum or mean does not fit its type"
    return StepFailed(msg, code="RUN-005", step=step, found=found, hint="cast it first, as in CAST(x AS decimal(38,0))")


def _input_type(kind: str, of: pa.DataType) -> pa.DataType:
    """What is aggregated: means of integers add doubles as in Spark; Arrow has no `first` of decimals, but of text."""
    if kind == "avg" and pa.types.is_integer(of):
        return pa.float64()
    return pa.string() if kind in {"first", "last"} and pa.types.is_decimal(of) else of


def _roomy(table: pa.Table, summed: list[str]) -> pa.Table:
    """Arrow's sums of integers wrap around; where one might, it is taken over decimals."""
    for name in summed:
        column = table.column(name)
        if not pa.types.is_integer(column.type):
            continue
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) * table.num_rows > _LONGEST:
            table = table.set_column(table.schema.get_field_index(name), name, column.cast(pa.decimal128(38, 0)))
    return table


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


def _plus(held: Any, value: Any) -> Any:
    return _EXACT.add(held, value) if type(value) is decimal.Decimal else held + value


_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _plus,
    # As in the vectorised form, NaN counts only where there is nothing else.
    "min": lambda held, value: value if value < held or held != held else held,  # noqa: PLR0124
    "max": lambda held, value: value if value > held or held != held else held,  # noqa: PLR0124
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
        *,
        step: str,
    ) -> None:
        self._step = step
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
        made = evaluated(self._step, self.projection.apply, rows)
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
            elif kind == "avg":
                totals = [total for total in (mine[0], theirs[0]) if total is not None]
                state[place] = [functools.reduce(_plus, totals) if totals else None, mine[1] + theirs[1]]
            elif theirs is not None:
                state[place] = theirs if mine is None else self._added(kind, mine, theirs)

    def _added(self, kind: str, held: Any, value: Any) -> Any:
        made = _ADD[kind](held, value)
        if kind == "sum" and type(made) is int and not -_LONGEST - 1 <= made <= _LONGEST:
            raise _overflow(self._step, str(made))
        return made

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
    if kind == "avg":
        return tuple_of(python_type(AGGREGATES["sum"].gives(_input_type(kind, of))), int)
    return python_type(AGGREGATES[kind].gives(of))
