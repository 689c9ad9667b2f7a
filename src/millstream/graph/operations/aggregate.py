"""Running results per key: built-in aggregates, with the type that each gives and what it keeps, and reductions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges, need_whole, refuse_reading
from millstream.graph.expressions.expression import Expression, parse_expression, parse_predicate
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Expressions, Operation, Outputs, OverChanges, PlacedStep, ResolvedStep
from millstream.graph.outputs import key_fields
from millstream.graph.step import MAIN
from millstream.graph.texts import ExpressionText
from millstream.model.changelog import Changelog
from millstream.model.schema import HIDDEN, Field, Schema

Emit = Literal["epoch", "row", "end"]
_WHERE = HIDDEN + "where_"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate as the user wrote it: `ms.sum("amount")`."""

    kind: str
    of: ExpressionText | None = None
    """Expression text; `None` only for `count` of rows."""
    where: ExpressionText | None = None
    """Expression text: rows for which it is not true do not count."""

    def __post_init__(self) -> None:
        if self.kind not in AGGREGATES:
            msg = "unknown aggregate"
            raise InvalidStep(
                msg, code="STEP-012", found=repr(self.kind), known=AGGREGATES, hint="use a known aggregate"
            )
        if self.of is None and self.kind != "count":
            msg = f"aggregate {self.kind!r} needs a column or expression"
            raise InvalidStep(msg, code="STEP-012", hint=f"write ms.{self.kind}('amount')")

    @property
    def text(self) -> str:
        """The aggregate for people."""
        where = "" if self.where is None else f" where {self.where}"
        return f"{self.kind}({self.of or ''}){where}"

    @property
    def never_null(self) -> bool:
        """Whether it has a result without any value."""
        return self.kind in {"count", "count_distinct"}


def where_name(name: str) -> str:
    """Under which name a step keeps the condition of an aggregate, beside what the aggregate is of."""
    return _WHERE + name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AggregateKind:
    """How an aggregate works: `parts` are (function on rows, function on partial results), by Arrow's names."""

    parts: tuple[tuple[str, str], ...]
    accepts: Callable[[pa.DataType], bool]
    accepts_text: str
    gives: Callable[[pa.DataType], pa.DataType]


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _is_ordered(kind: pa.DataType) -> bool:
    return _is_number(kind) or any(
        test(kind) for test in (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date, pa.types.is_boolean)
    )


def _is_scalar(kind: pa.DataType) -> bool:
    return _is_ordered(kind) or pa.types.is_binary(kind)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _avg_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 4), min(37, kind.scale + 4))
    return pa.float64()


DISTINCT = "distinct"
"""No function of Arrow: a list of the distinct values of each group."""
AGGREGATES: dict[str, AggregateKind] = {
    "count": AggregateKind(
        parts=(("count", "sum"),), accepts=lambda _: True, accepts_text="any", gives=lambda _: pa.int64()
    ),
    "count_distinct": AggregateKind(
        parts=((DISTINCT, DISTINCT),), accepts=_is_scalar, accepts_text="a plain type", gives=lambda _: pa.int64()
    ),
    "sum": AggregateKind(parts=(("sum", "sum"),), accepts=_is_number, accepts_text="a number", gives=_sum_type),
    "avg": AggregateKind(
        parts=(("sum", "sum"), ("count", "sum")), accepts=_is_number, accepts_text="a number", gives=_avg_type
    ),
    "min": AggregateKind(parts=(("min", "min"),), accepts=_is_ordered, accepts_text="an ordered type", gives=_same),
    "max": AggregateKind(parts=(("max", "max"),), accepts=_is_ordered, accepts_text="an ordered type", gives=_same),
    "first": AggregateKind(parts=(("first", "first"),), accepts=_is_scalar, accepts_text="a plain type", gives=_same),
    "last": AggregateKind(parts=(("last", "last"),), accepts=_is_scalar, accepts_text="a plain type", gives=_same),
}


def result_type(aggregate: Aggregate, of: pa.DataType | None, *, step: str | None) -> pa.DataType:
    """The type an aggregate gives for an input type; a type it cannot take is refused."""
    kind = AGGREGATES[aggregate.kind]
    if of is None:
        return pa.int64()
    if not kind.accepts(of):
        msg = f"aggregate {aggregate.kind!r} cannot take {aggregate.of!r}"
        raise InvalidStep(msg, code="STEP-013", step=step, found=str(of), known=kind.accepts_text, hint="cast it first")
    return kind.gives(of)


Aggregates = tuple[tuple[str, Aggregate], ...]


def aggregated(aggregates: Aggregates, schema: Schema, step: str) -> tuple[Expressions, tuple[Field, ...]]:
    """What aggregates need of each row, and the columns that they give."""
    if not aggregates:
        msg = "aggregate needs at least one aggregate"
        raise InvalidStep(msg, code="STEP-046", step=step, hint="for example total=ms.sum('amount')")
    expressions: list[tuple[str, Expression]] = []
    fields: list[Field] = []
    for name, aggregate in aggregates:
        parsed = None if aggregate.of is None else parse_expression(aggregate.of, schema, step=step)
        where = None if aggregate.where is None else parse_predicate(aggregate.where, schema, step=step)
        if parsed is not None and where is not None and parsed.direct is None:
            # It might fail on rows that do not count.
            parsed, where = parsed.only_where(where), None
        expressions += [] if parsed is None else [(name, parsed)]
        expressions += [] if where is None else [(where_name(name), where)]
        kind = result_type(aggregate, None if parsed is None else parsed.type, step=step)
        fields.append(Field(name, kind, not aggregate.never_null))
    return tuple(expressions), tuple(fields)


def aggregates_text(aggregates: Aggregates) -> str:
    """Aggregates for people."""
    return ", ".join(f"{name} = {aggregate.text}" for name, aggregate in aggregates)


def stored_aggregates(aggregates: Aggregates, node: ResolvedStep) -> list[list[str]]:
    """What is stored follows from the kind and the output type, but for distinct values, which are of the input's type."""
    types = {name: str(expression.type) for name, expression in node.expressions}
    stored = []
    for name, aggregate in aggregates:
        distinct = [types[name]] if aggregate.kind == "count_distinct" else []
        stored.append([name, aggregate.kind, *distinct, *(["where"] if aggregate.where is not None else [])])
    return stored


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyedAggregate(Operation):
    """Running built-in aggregates per key."""

    kind = "aggregate"
    runs_as = "keyed"
    aggregates: Aggregates
    emit: Emit = "epoch"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The key and a column for each aggregate."""
        expressions, fields = aggregated(self.aggregates, schemas[0], step.id)
        return expressions, {MAIN: Schema(key_fields(step, schemas[0]) + fields)}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """What comes is added, what goes is taken out again; a group whose last row goes is deleted."""
        need_whole(changes, "what goes is taken out of the results, and must be known for that")
        _check_retractable(self.aggregates, self.emit, changes)
        changing = ChangingAggregate(aggregates=self.aggregates, emit=self.emit, op=changes.changelog.op)
        return changing, changing.changelog(changes.keys)

    def describe(self) -> str:
        """The aggregates, and when they are told."""
        return f"{aggregates_text(self.aggregates)}; emits per {self.emit}"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Results after every row are kept entry by entry, others as columns."""
        kept_as = "entries" if self.emit == "row" else "columns"
        return {"aggregates": stored_aggregates(self.aggregates, node), "kept_as": kept_as}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChangingAggregate(KeyedAggregate):
    """Running aggregates over changes, as a plan has them. What it gives are changes of its results, by key."""

    kind = "aggregate"
    op: str
    """The column that says what happened, in the rows and in the results."""

    def changelog(self, keys: tuple[str, ...]) -> Changelog | None:
        """At the end of the input results are final: they are rows then."""
        return None if self.emit == "end" else Changelog(op=self.op, keys=keys)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The key, a column for each aggregate, and what became of the result."""
        # Not super(): a dataclass with slots is another class than the one that its methods were written in.
        expressions, outputs = KeyedAggregate.gives(self, step, schemas)
        changelog = self.changelog(step.inputs[0].keys)
        return expressions, outputs if changelog is None else {MAIN: Schema((*outputs[MAIN], changelog.field))}

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Besides results, how many rows there are."""
        return {"aggregates": stored_aggregates(self.aggregates, node), "kept_as": "signed columns"}


RETRACTABLE = ("count", "sum", "avg")


def is_exact(kind: pa.DataType) -> bool:
    """Whether what was added to a sum can be taken out again without a trace."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _check_retractable(aggregates: Aggregates, emit: Emit, changes: IncomingChanges) -> None:
    if changes.changelog.op in changes.keys:
        msg = f"rows are keyed by {changes.changelog.op!r}, so that a row would not go where it came"
        raise changes.refused(msg, "CHANGE-003", hint="key by columns of the rows")
    if emit == "row":
        msg = "an aggregate over changes cannot emit after every row"
        raise changes.refused(msg, "CHANGE-005", found="emit='row'", known="epoch, end", hint="use emit='epoch'")
    expressions, _ = aggregated(aggregates, changes.schemas[0], changes.step)
    refuse_reading(changes, (expression for _, expression in expressions))
    for name, aggregate in aggregates:
        if aggregate.kind not in RETRACTABLE:
            msg = f"{name} = {aggregate.text} over changes: what goes cannot be taken out of it again"
            hint = "aggregate these behind .as_rows(), if each change shall count as a row, or leave them out"
            raise changes.refused(msg, "CHANGE-005", found=aggregate.kind, known=RETRACTABLE, hint=hint)
        if aggregate.kind != "count" and not is_exact(dict(expressions)[name].type):
            msg = f"{name} = {aggregate.text} over changes: numbers with a floating point leave traces when they go"
            hint = f"cast it: CAST({aggregate.of} AS decimal(38, 6))"
            raise changes.refused(msg, "CHANGE-005", found=str(dict(expressions)[name].type), hint=hint)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Operation):
    """A running Python reduction per key; emits after every row."""

    kind = "reduce"
    runs_as = "keyed"
    function: FunctionRef

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        del step
        return (), {MAIN: schemas[0]}

    def describe(self) -> str:
        """The function."""
        return self.function.describe()
