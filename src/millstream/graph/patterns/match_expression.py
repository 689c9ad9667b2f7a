"""Expressions over the rows of a match: `first(a.price) - last(b.price)`, `avg(a.price) < 100`, `count(b)`.

`a.price` alone is that of the last row of stage `a`. In a condition, columns without a stage are those of the row under test,
and that row counts as one of its own stage already, as in SQL's MATCH_RECOGNIZE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import Expression
from millstream.graph.expressions.refusal import NOT_BOOLEAN, Site
from millstream.graph.operations.aggregate import Aggregate, result_type
from millstream.graph.patterns.pattern import PatternSpec
from millstream.model.schema import Field, Schema
from millstream.model.types import type_name

NAVIGATION = ("first", "last")
FOLDS = ("count", "sum", "avg", "min", "max")
_CLOCK = "processing_time"
PROCESSING_TIME = f"{_CLOCK}()"
"""In a condition: the clock of the epoch in milliseconds since 1970, as if it were a column of the row under test."""


class Reference(NamedTuple):
    """A value taken from the rows of one stage."""

    kind: str
    stage: str
    column: str | None
    """`None` only for `count` of rows."""
    offset: int = 0
    """How many rows after the first, or before the last."""

    @property
    def name(self) -> str:
        """The reference as text; it names a column of values."""
        of = self.stage if self.column is None else f"{self.stage}.{self.column}"
        return f"{self.kind}({of}{f', {self.offset}' if self.offset else ''})"


class MatchExpression(NamedTuple):
    """Checked text over the rows of a match."""

    references: tuple[Reference, ...]
    expression: Expression
    """Over columns that are named by the references, and the columns given beside them."""
    tree: Any
    schema: Schema
    """The columns the expression may use."""


def read_match_expression(
    text: str, pattern: PatternSpec, rows: Schema, *, beside: Schema, step: str | None, predicate: bool = False
) -> MatchExpression:
    """Check text against the stages of a pattern and the columns of its rows.

    Args:
        text: the expression.
        pattern: whose stages it may name.
        rows: the columns of a row of any stage.
        beside: columns that may be named without a stage.
        step: named in errors.
        predicate: whether the result must be boolean.

    Raises:
        InvalidExpression: as for any expression.
        InvalidStep: a stage, a column of it or an aggregate is not known.
    """
    # They bring the SQL parser along.
    from millstream.graph.expressions.compile import Compiler
    from millstream.graph.expressions.reading import read

    site = Site(text=text, step=step)
    references: dict[str, Reference] = {}
    tree = _replaced(read(site), pattern, references, step)
    fields = [Field(name, _type_of(reference, rows, step)) for name, reference in references.items()]
    if predicate:
        # Measures are computed when a match is known, which may be in another epoch.
        tree, beside = tree.transform(_clock), with_clock(beside)
    schema = Schema((*(field for field in beside if field.name not in references), *fields))
    expression = Compiler(schema, site).expression(tree)
    if predicate and expression.type != pa.bool_():
        raise site.refuse(NOT_BOOLEAN, "must be boolean", found=type_name(expression.type), hint="compare it")
    return MatchExpression(references=tuple(references.values()), expression=expression, tree=tree, schema=schema)


def _replaced(tree: Any, pattern: PatternSpec, references: dict[str, Reference], step: str | None) -> Any:
    """The tree with each reference as a column of its own."""
    from sqlglot import exp

    taken = {stage.name for stage in pattern.flat if not stage.is_not}

    def column_of(reference: Reference) -> Any:
        references.setdefault(reference.name, reference)
        return exp.Column(this=exp.Identifier(this=reference.name, quoted=True))

    def visit(node: Any) -> Any:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in {*NAVIGATION, *FOLDS}:
            reference = _call(str(node.this).lower(), node.expressions, taken, step)
            return node if reference is None else column_of(reference)
        if isinstance(node, exp.Column) and node.table in taken and not node.db:
            return column_of(Reference(kind="last", stage=node.table, column=node.name))
        return node

    return tree.transform(visit)


def _clock(node: Any) -> Any:
    """A call for the clock as a column of its own."""
    from sqlglot import exp

    is_call = isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).lower() == _CLOCK
    return exp.Column(this=exp.Identifier(this=PROCESSING_TIME, quoted=True)) if is_call else node


def with_clock(rows: Schema) -> Schema:
    """Columns, and the clock beside them."""
    return Schema((*rows, Field(PROCESSING_TIME, pa.int64(), nullable=False)))


def _call(kind: str, arguments: list[Any], taken: Iterable[str], step: str | None) -> Reference | None:
    """A call over the rows of a stage; `None` when it names no stage and may be an ordinary function."""
    from sqlglot import exp

    first = arguments[0] if arguments else None
    if not isinstance(first, exp.Column):
        return None
    if not first.table and first.name in taken and kind == "count" and len(arguments) == 1:
        return Reference(kind=kind, stage=first.name, column=None)
    if first.table not in taken:
        # A stage alone is something to count; of the others, a column without a stage is an argument like any.
        if not first.table and (kind != "count" or len(arguments) > 1):
            return None
        msg = f"{kind}() names no stage of the pattern"
        unknown = first.table or first.name
        raise InvalidStep(msg, code="STEP-109", step=step, found=unknown, known=taken, hint="name a known stage")
    given = [str(argument.this) if isinstance(argument, exp.Literal) else "" for argument in arguments[1:]]
    if len(given) > (kind in NAVIGATION) or not all(text.isdigit() for text in given):
        msg = f"{kind}() is called in another form"
        known = f"{kind}(stage.column, 1)" if kind in NAVIGATION else f"{kind}(stage.column)"
        raise InvalidStep(msg, code="STEP-109", step=step, known=known, hint="correct its arguments")
    return Reference(kind=kind, stage=first.table, column=first.name, offset=int(given[0]) if given else 0)


def _type_of(reference: Reference, rows: Schema, step: str | None) -> pa.DataType:
    if reference.column is not None and reference.column not in rows:
        msg = f"stage {reference.stage!r} has no column {reference.column!r}"
        raise InvalidStep(msg, code="STEP-109", step=step, known=rows.names, hint="use one of the known columns")
    return folded_type(reference, rows, step=step)


def folded_type(reference: Reference, rows: Schema, *, step: str | None = None) -> pa.DataType:
    """The type of a value over the rows of a stage."""
    of = None if reference.column is None else rows[reference.column].type
    if of is not None and reference.kind in NAVIGATION:
        return of
    return result_type(Aggregate(kind=reference.kind, of=reference.name), of, step=step)


Measures = tuple[tuple[str, MatchExpression], ...]


def measures_of(
    measures: Iterable[tuple[str, str]], pattern: PatternSpec, rows: Schema, keys: Schema, *, step: str | None
) -> Measures:
    """Measures over whole matches; they may name key columns too."""
    return tuple((name, read_match_expression(text, pattern, rows, beside=keys, step=step)) for name, text in measures)
