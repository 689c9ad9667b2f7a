"""What aggregates are of, as columns: expressions evaluated once, values of rows that do not count made null."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.expressions.expression import Expression
from millstream.runtime.expressions import Projection, evaluated

_Term = tuple[str, pa.DataType]
_Wanted = tuple[_Term | None, _Term | None, pa.DataType, bool]
"""A value, the condition under which it counts, the type it is cast to, and whether only sums use it."""


class AggregateInputs:
    """The input columns of the aggregates of one step; equal ones are shared."""

    def __init__(self, prefix: str, step: str) -> None:
        self._prefix, self._step = prefix, step
        self._terms: dict[_Term, Expression] = {}
        self._wanted: dict[_Wanted, str] = {}
        self._projection: Projection | None = None

    def add(
        self, value: Expression | None, where: Expression | None, kind: pa.DataType, *, is_summed: bool = False
    ) -> str:
        """Ask for a column; gives its name. Without a value, the rows for which the condition is true are counted."""
        wanted = self._term(value), self._term(where), kind, is_summed
        return self._wanted.setdefault(wanted, f"{self._prefix}{len(self._wanted)}")

    def _term(self, expression: Expression | None) -> _Term | None:
        if expression is None:
            return None
        term = expression.sql, expression.type
        self._terms.setdefault(term, expression)
        return term

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._wanted.values())

    @property
    def types(self) -> list[pa.DataType]:
        """The types of the columns, in order."""
        return [kind for _, _, kind, _ in self._wanted]

    def columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns for some rows."""
        if not self._wanted:
            return []
        if self._projection is None:
            self._projection = Projection([(f"c{at}", each) for at, each in enumerate(self._terms.values())])
        made = evaluated(self._step, self._projection.apply, rows)
        known = dict(zip(self._terms, made.columns, strict=True))
        return [_column(known, *wanted[:3]) for wanted in self._wanted]


def _column(known: dict[_Term, pa.Array], value: _Term | None, where: _Term | None, kind: pa.DataType) -> pa.Array:
    if where is None:
        assert value is not None, "an input has a value or a condition"
        return known[value].cast(kind, safe=False)
    counted = pa.scalar(value=True) if value is None else known[value]
    return pc.if_else(known[where], counted, pa.scalar(None, counted.type)).cast(kind, safe=False)
