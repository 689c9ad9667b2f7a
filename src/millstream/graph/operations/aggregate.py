"""Built-in aggregates: what each keeps, how it is combined, and the type it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.schema import HIDDEN

_WHERE = HIDDEN + "where_"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate as the user wrote it: `ms.sum("amount")`."""

    kind: str
    of: str | None = None
    """Expression text; `None` only for `count` of rows."""
    where: str | None = None
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
