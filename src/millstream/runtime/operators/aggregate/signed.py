"""Count, sum and mean of rows that come and go: what comes is added, what goes is taken out again, and nothing is left of it.

Every part is a sum, so that rows and partial results may be added in any order. Integers are summed as decimals: what goes may
be counted before what came, and the sums in between are larger than their result.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.operations.aggregate import AGGREGATES, ChangingAggregate, where_name
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.change import ChangeKind
from millstream.model.schema import HIDDEN
from millstream.records.batch import TIME
from millstream.runtime.operators.aggregate.accumulate import INPUT, mean_column, overflow
from millstream.runtime.operators.aggregate.inputs import AggregateInputs

ROWS = HIDDEN + "rows"
"""How many rows a group has."""
_PART = HIDDEN + "part"
_COUNT = pa.int64()
_INTEGERS = pa.decimal128(38, 0)


class _SignedAggregate(NamedTuple):
    """The parts of one aggregate: how many values it has, and their sum where that is asked for."""

    kind: str
    of: str | None
    """The input column; `None` where every row counts."""
    counted: str
    total: str | None
    total_type: pa.DataType | None
    gives: pa.DataType


class SignedAccumulators:
    """The aggregates of one step over Arrow tables. Equal to zero is what has gone entirely."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, ChangingAggregate)
        self._step, self._op = node.id, node.operation.op
        self.keeps_time = bool(node.event_time)
        self._inputs = AggregateInputs(INPUT, node.id)
        named, schema = dict(node.expressions), node.outputs[MAIN]
        self._aggregates: list[_SignedAggregate] = []
        for place, (name, aggregate) in enumerate(node.operation.aggregates):
            of, where = named.get(name), named.get(where_name(name))
            taken = pa.bool_() if of is None else of.type
            column = None if of is None and where is None else self._inputs.add(of, where, taken)
            is_summed = aggregate.kind != "count"
            self._aggregates.append(
                _SignedAggregate(
                    kind=aggregate.kind,
                    of=column,
                    counted=f"{_PART}{place}_count",
                    total=f"{_PART}{place}_sum" if is_summed else None,
                    total_type=_total_type(taken) if is_summed else None,
                    gives=schema[name].type,
                )
            )

    @property
    def depends_on_order(self) -> bool:
        """Whatever comes and goes first, it adds up to the same."""
        return False

    @property
    def part_fields(self) -> list[pa.Field]:
        """The columns of partial results."""
        fields = [pa.field(ROWS, _COUNT)]
        for each in self._aggregates:
            fields.append(pa.field(each.counted, _COUNT))
            if each.total is not None:
                fields.append(pa.field(each.total, each.total_type))
        return [*fields, *([pa.field(TIME, pa.int64())] if self.keeps_time else [])]

    def inputs(self, rows: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """What each row adds to the parts, or takes from them."""
        goes = pc.equal(rows.column(self._op), ChangeKind.DELETE.value)
        sign = pc.if_else(goes, pa.scalar(-1, _COUNT), pa.scalar(1, _COUNT))
        values = dict(zip(self._inputs.names, self._inputs.columns(rows), strict=True))
        made = [(ROWS, sign)]
        for each in self._aggregates:
            if each.of is None:
                made.append((each.counted, sign))
                continue
            column = values[each.of]
            made.append((each.counted, pc.if_else(column.is_valid(), sign, pa.scalar(0, _COUNT))))
            if each.total is not None:
                wide = column.cast(each.total_type)
                made.append((each.total, pc.if_else(goes, pc.negate(wide), wide)))
        return made

    def combine(self, table: pa.Table, by: list[str]) -> pa.Table:
        """Partial results of rows."""
        return self.merge(table, by)

    def merge(self, table: pa.Table, by: list[str], extra: list[tuple[str, str]] | None = None) -> pa.Table:
        """Partial results of partial results; `extra` are further (column, function) to keep."""
        fields, extra = self.part_fields, extra or []
        wanted = [(field.name, "max" if field.name == TIME else "sum") for field in fields] + extra
        made = table.group_by(by, use_threads=False).aggregate(wanted)
        columns = [made.column(f"{name}_{function}") for name, function in wanted]
        try:
            parts = [_part(column, field) for column, field in zip(columns, fields, strict=False)]
        except pa.ArrowInvalid as problem:
            raise overflow(self._step, str(problem)) from problem
        names = [*by, *(name for name, _ in wanted)]
        return pa.table([*(made.column(key) for key in by), *parts, *columns[len(fields) :]], names=names)

    def results(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The output columns of merged partial results."""
        try:
            return [self._result(each, table) for each in self._aggregates]
        except pa.ArrowInvalid as problem:
            raise overflow(self._step, str(problem)) from problem

    def _result(self, each: _SignedAggregate, table: pa.Table) -> pa.ChunkedArray:
        count = table.column(each.counted)
        if each.total is None:
            return count
        has_values = pc.not_equal(count, 0)
        total = pc.if_else(has_values, table.column(each.total), pa.scalar(None, each.total_type))
        return total.cast(each.gives) if each.kind == "sum" else mean_column(total, count, each.gives)

    def is_impossible(self, table: pa.Table) -> pa.ChunkedArray:
        """Which groups had other rows go than came: fewer than none are left, or none and something of their values."""
        rows = table.column(ROWS)
        wrong = pc.less(rows, 0)
        is_gone = pc.equal(rows, 0)
        for each in self._aggregates:
            for name in (each.counted, *([] if each.total is None else [each.total])):
                left = table.column(name)
                wrong = pc.or_(wrong, pc.and_(is_gone, pc.not_equal(left, pa.scalar(0, left.type))))
        return wrong


def _total_type(of: pa.DataType) -> pa.DataType:
    return _INTEGERS if pa.types.is_integer(of) else AGGREGATES["sum"].gives(of)


def _part(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if field.name == TIME:
        return column.cast(field.type)
    return pc.fill_null(column.cast(field.type), pa.scalar(0, field.type))
