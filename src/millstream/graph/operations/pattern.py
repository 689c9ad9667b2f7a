"""A pattern over the rows of each key, and what a match of it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import Expression
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.operations.rank import check_instant_order
from millstream.graph.outputs import key_fields
from millstream.graph.patterns.match_expression import measures_of
from millstream.graph.patterns.match_source import check_conditions
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.step import LATE, MAIN, TIMED_OUT
from millstream.graph.texts import ExpressionText
from millstream.model.schema import Field, Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MatchPattern(Operation):
    """Rows of a key that follow each other in a given way; a match gives measures, or what a function makes of it."""

    kind = "pattern"
    runs_as = "keyed"
    may_be_single = True
    pattern: PatternSpec
    function: FunctionRef | None = None
    measures: tuple[tuple[str, ExpressionText], ...] = ()
    schema: Schema | None = None
    timed_out: FunctionRef | None = None
    timed_out_measures: tuple[tuple[str, ExpressionText], ...] = ()
    timed_out_schema: Schema | None = None
    order_by: tuple[str, ...] = ()
    """Columns by which rows of one instant are put in order."""

    def __post_init__(self) -> None:
        if (self.function is None) == (not self.measures) or (self.function is None) != (self.schema is None):
            msg = "a pattern gives measures, or rows of a function with a schema"
            raise InvalidStep(msg, code="STEP-108", hint="call .measures(...), .select(...) or .process(...)")
        if self.timed_out is not None and (self.timed_out_measures or self.timed_out_schema is None):
            msg = "what timed out gives measures, or rows of a function with a schema"
            raise InvalidStep(msg, code="STEP-108", hint="correct timed_out= or give timed_out_schema=")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Matches, late rows, and what timed out if anything is made of it."""
        (rows,) = schemas
        check_conditions(self.pattern, rows, step=step.id)
        check_instant_order(self.order_by, rows, step.id)
        keys = Schema(key_fields(step, rows))
        expressions: list[tuple[str, Expression]] = []
        outputs = {LATE: rows}
        for output, measures, given in (
            (MAIN, self.measures, self.schema),
            (TIMED_OUT, self.timed_out_measures, self.timed_out_schema),
        ):
            read = measures_of(measures, self.pattern, rows, keys, step=step.id)
            prefix = "" if output == MAIN else f"{output}."
            expressions += [(f"{prefix}{name}", measure.expression) for name, measure in read]
            if read:
                outputs[output] = Schema((*keys, *(Field(name, measure.expression.type) for name, measure in read)))
            elif given is not None:
                outputs[output] = given
        return tuple(expressions), outputs

    def describe(self) -> str:
        """What a match gives."""
        if self.function is not None:
            return self.function.describe()
        return ", ".join(f"{name} = {text}" for name, text in self.measures)

    def facts(self) -> Iterator[tuple[str, str]]:
        """The pattern."""
        yield "pattern", self.pattern.describe()

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """What partial matches depend on, and the order of rows that wait for the watermark."""
        del node
        return {"pattern": self.pattern.version, "order_by": list(self.order_by)}
