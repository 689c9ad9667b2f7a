"""Built-in aggregates, vectorised over Arrow tables; value by value they are in `accumulate_values`."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.graph.expressions.expression import Expression
from millstream.graph.operations.aggregate import AGGREGATES, DISTINCT, Aggregate, where_name
from millstream.model.schema import HIDDEN, Field
from millstream.records.batch import TIME
from millstream.runtime.operators.aggregate.distinct import Mask, Numbers, distinct_values, group_numbers, merged_values
from millstream.runtime.operators.aggregate.inputs import AggregateInputs
from millstream.runtime.operators.window.pairwise import LONGEST, MergedColumn, largest, may_have_nan

INPUT, _PART, _ROW, _NAN = HIDDEN + "in", HIDDEN + "part", HIDDEN + "row", "_is_nan"


class _PartialColumn(NamedTuple):
    """One column of partial results."""

    name: str
    of: str
    """The input column; empty where rows are counted."""
    where: str | None
    """The input column with the condition, for distinct values; other inputs are null where it is not true."""
    combine: str
    merge: str
    type: pa.DataType

    @property
    def combined(self) -> str:
        """The column that Arrow makes of rows."""
        return f"{self.of}_{self.combine}" if self.of else "count_all"


class Accumulators:
    """The aggregates of one step over Arrow tables.

    Rows are first combined into partial results (on the sending side), partial results are merged with those in state,
    and merged ones become output columns. Combining keeps the order of rows, for `first` and `last`. With `keeps_time` the
    newest event time of a group is kept beside its results. Distinct values are kept as a list per group.
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
        self._inputs = AggregateInputs(INPUT, step)
        self._outputs = list(outputs)
        named = dict(expressions)
        parts = [
            self._parts_for(place, aggregate.kind, named.get(name), named.get(where_name(name)))
            for place, (name, aggregate) in enumerate(aggregates)
        ]
        self._parts_of = [[part.name for part in some] for some in parts]
        self._parts = [part for some in parts for part in some]
        if keeps_time:
            self._parts.append(_PartialColumn(TIME, TIME, None, "max", "max", pa.int64()))
        self._distinct = [part for part in self._parts if part.combine == DISTINCT]

    def _parts_for(
        self, place: int, kind: str, of: Expression | None, where: Expression | None
    ) -> list[_PartialColumn]:
        is_distinct, is_summed = kind == "count_distinct", kind in {"sum", "avg"}
        column, taken = "", None if of is None else input_type(kind, of.type)
        if taken is not None:
            # Sums have columns of their own, which are made wider where they might overflow.
            column = self._inputs.add(of, None if is_distinct else where, taken, is_summed=is_summed)
        elif where is not None:
            column, taken = self._inputs.add(None, where, pa.bool_()), pa.bool_()
        counted = self._inputs.add(where, None, pa.bool_()) if is_distinct and where is not None else None
        return [
            _PartialColumn(f"{_PART}{place}_{number}", column, counted, combine, merge, _part_type(combine, taken))
            for number, (combine, merge) in enumerate(AGGREGATES[kind].parts)
        ]

    @property
    def parts(self) -> list[MergedColumn]:
        """The columns of partial results, and how each is merged."""
        return [MergedColumn(part.name, part.merge, part.type) for part in self._parts]

    @property
    def depends_on_order(self) -> bool:
        """Whether it matters which rows came first."""
        return any(part.merge in {"first", "last"} for part in self._parts)

    @property
    def part_fields(self) -> list[pa.Field]:
        """The columns of partial results."""
        return [pa.field(part.name, part.type) for part in self._parts]

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """The values to aggregate, as named columns."""
        return list(zip(self._inputs.names, self._inputs.columns(rows), strict=True))

    def combine(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of rows: one row per group, about in the order groups first occur."""
        plain = [part for part in self._parts if part.combine != DISTINCT]
        wanted = {part.combined: ((part.of, part.combine) if part.of else ([], "count_all")) for part in plain}
        table = _roomy(table, sorted({part.of for part in plain if part.combine == "sum"}))
        made, groups = self._grouped(table, by, list(wanted.values()))
        lists = self._combined_lists(table, groups, made.num_rows)
        columns = [lists[part.name] if part.name in lists else made.column(part.combined) for part in self._parts]
        return self._typed(made, by, columns)

    def _combined_lists(self, table: pa.Table, groups: Numbers, count: int) -> dict[str, pa.ChunkedArray]:
        """Distinct values of rows; aggregates of one column share the work."""
        made: dict[str, pa.ChunkedArray] = {}
        for of in dict.fromkeys(part.of for part in self._distinct):
            same = [part for part in self._distinct if part.of == of]
            masks = [None if part.where is None else _mask(table.column(part.where)) for part in same]
            lists = distinct_values(groups, count, table.column(of).combine_chunks(), masks)
            made |= {part.name: pa.chunked_array([each]) for part, each in zip(same, lists, strict=True)}
        return made

    def merge(self, table: pa.Table, by: list[str], extra: list[tuple[str, str]] | None = None) -> pa.Table:
        """Partial results of partial results; `extra` are further (column, function) to keep."""
        extra = extra or []
        plain = [part for part in self._parts if part.merge != DISTINCT]
        table = _roomy(table, [part.name for part in plain if part.merge == "sum"])
        made, groups = self._grouped(table, by, [*((part.name, part.merge) for part in plain), *extra])
        lists = {
            part.name: pa.chunked_array(
                [merged_values(groups, made.num_rows, table.column(part.name).combine_chunks())]
            )
            for part in self._distinct
        }
        columns = [
            lists[part.name] if part.name in lists else made.column(f"{part.name}_{part.merge}") for part in self._parts
        ]
        merged = self._typed(made, by, columns)
        for column, function in extra:
            merged = merged.append_column(column, made.column(f"{column}_{function}"))
        return merged

    def _grouped(self, table: pa.Table, by: list[str], wanted: list[Any]) -> tuple[pa.Table, Numbers]:
        """Arrow's aggregates, and where distinct values need it the number of each row's group."""
        nans = [name for name, how in wanted if how == "max" and may_have_nan(table.column(name))]
        for name in nans:
            table = table.append_column(
                name + _NAN, pc.fill_null(pc.is_nan(table.column(name)), pa.scalar(value=False))
            )
        wanted = [*wanted, *((name + _NAN, "any") for name in nans)]
        # On one thread groups come in the same order each time, and Arrow does `first` and `last` on no more than one.
        if not self._distinct:
            return _with_nans(table.group_by(by, use_threads=False).aggregate(wanted), nans), np.empty(0, np.int64)
        table = table.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        made = table.group_by(by, use_threads=False).aggregate([*wanted, (_ROW, "list")])
        return _with_nans(made, nans), group_numbers(made.column(f"{_ROW}_list").combine_chunks())

    def _typed(self, made: pa.Table, by: list[str], columns: list[pa.ChunkedArray]) -> pa.Table:
        # Integers that were summed as decimals become integers again here, and a sum that is too large for them is refused.
        try:
            parts = [column.cast(part.type) for column, part in zip(columns, self._parts, strict=True)]
        except pa.ArrowInvalid as problem:
            raise overflow(self._step, str(problem)) from problem
        names = by + [part.name for part in self._parts]
        return pa.table([*(made.column(key) for key in by), *parts], names=names)

    def results(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The output columns of merged partial results."""
        try:
            return [
                _result([table.column(name) for name in names], field.type)
                for names, field in zip(self._parts_of, self._outputs, strict=True)
            ]
        except pa.ArrowInvalid as problem:
            raise overflow(self._step, str(problem)) from problem


def _with_nans(made: pa.Table, names: list[str]) -> pa.Table:
    """NaN is the largest number, as in Spark; Arrow passes it over."""
    for name in names:
        place = made.schema.get_field_index(f"{name}_max")
        largest_values = made.column(place)
        largest_values = pc.if_else(
            made.column(f"{name}{_NAN}_any"), pa.scalar(math.nan, largest_values.type), largest_values
        )
        made = made.set_column(place, f"{name}_max", largest_values)
    return made


def overflow(step: str, found: str) -> StepFailed:
    """A result that its type cannot hold."""
    msg = "a sum or mean does not fit its type"
    return StepFailed(msg, code="RUN-005", step=step, found=found, hint="cast it first, as in CAST(x AS decimal(38,0))")


def input_type(kind: str, of: pa.DataType) -> pa.DataType:
    """What is aggregated: means of integers add doubles as in Spark; Arrow has no `first` of decimals, but of text."""
    if kind == "avg" and pa.types.is_integer(of):
        return pa.float64()
    return pa.string() if kind in {"first", "last"} and pa.types.is_decimal(of) else of


def _roomy(table: pa.Table, summed: list[str]) -> pa.Table:
    """Arrow's sums of integers wrap around; where one might, it is taken over decimals."""
    for name in summed:
        column = table.column(name)
        # A bound for the sum of all rows holds for each group, and costs one look at the column.
        if pa.types.is_integer(column.type) and largest(column) * table.num_rows > LONGEST:
            table = table.set_column(table.schema.get_field_index(name), name, column.cast(pa.decimal128(38, 0)))
    return table


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(column, pa.scalar(value=False)).combine_chunks())


def _part_type(combine: str, of: pa.DataType | None) -> pa.DataType:
    if combine == DISTINCT:
        return pa.list_(of)
    if combine == "count" or of is None:
        return pa.int64()
    return AGGREGATES[combine].gives(of)


def _result(parts: list[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    if len(parts) == 1:
        return (pc.list_value_length(parts[0]) if pa.types.is_list(parts[0].type) else parts[0]).cast(kind)
    return mean_column(parts[0], parts[1], kind)


def mean_column(total: pa.ChunkedArray, count: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Means from sums and counts; null where the sum is."""
    if pa.types.is_decimal(kind):
        values = [decimal_mean(s, n, kind.scale) for s, n in zip(total.to_pylist(), count.to_pylist(), strict=True)]
        return pa.chunked_array([pa.array(values, kind)])
    return pc.divide(total.cast(pa.float64()), count.cast(pa.float64()))


def decimal_mean(total: decimal.Decimal | None, count: int, scale: int) -> decimal.Decimal | None:
    """The mean rounded half up to a scale, as Spark rounds it."""
    if total is None or count == 0:
        return None
    # A mean that is no half is at least 1/2^64 of the last digit away from one, by its count. Of 38 digits, 76 show that: the
    # division never rounds onto a half, which would then be rounded up.
    with decimal.localcontext(prec=76):
        return (total / count).quantize(decimal.Decimal(1).scaleb(-scale), rounding=decimal.ROUND_HALF_UP)
