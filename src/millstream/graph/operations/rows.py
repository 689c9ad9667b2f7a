"""Operations on rows one by one or batch by batch, without state."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges, filtered, made_by_function, need_whole, projected
from millstream.graph.expressions.expression import Expression, parse_expression, parse_predicate
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, OverChanges, PlacedStep
from millstream.graph.outputs import OnError, with_dead
from millstream.graph.step import MAIN
from millstream.graph.texts import ExpressionText
from millstream.model.schema import Field, Schema

Columns = tuple[tuple[str, ExpressionText], ...]
"""Names with expression text."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Operation):
    """Keeps rows for which an expression is true."""

    kind = "filter"
    runs_as = "expression"
    where: ExpressionText

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        return (("where", parse_predicate(self.where, schemas[0], step=step.id)),), {MAIN: schemas[0]}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """A row goes by the condition by which it came."""
        return self, filtered(changes, parse_predicate(self.where, changes.schemas[0], step=changes.step))

    def describe(self) -> str:
        """The condition."""
        return self.where


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Select(Operation):
    """Exactly these columns, each an expression."""

    kind = "select"
    runs_as = "expression"
    columns: Columns

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that are named."""
        return _projected(self.columns, schemas[0], step.id)

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """What happened must be among the columns; it may have another name behind it."""
        expressions, _ = _projected(self.columns, changes.schemas[0], changes.step)
        return self, projected(changes, expressions)

    def describe(self) -> str:
        """The columns."""
        return _columns_text(self.columns)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WithColumns(Operation):
    """All columns, with these added or replaced."""

    kind = "with_columns"
    runs_as = "expression"
    columns: Columns

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in, each in its place, and the new ones behind them."""
        return self._projected(schemas[0], step.id)

    def _projected(self, schema: Schema, step: str) -> Outputs:
        given = dict(self.columns)
        kept = [(name, given.get(name, f"`{name}`")) for name in schema.names]
        added = [(name, text) for name, text in self.columns if name not in schema]
        return _projected((*kept, *added), schema, step)

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """What happened must not be replaced."""
        return self, projected(changes, self._projected(changes.schemas[0], changes.step)[0])

    def describe(self) -> str:
        """The columns that are added or replaced."""
        return _columns_text(self.columns)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PythonMap(Operation):
    """A Python function per row: one row out (`map`), any number (`flat_map`), or keep/drop (`filter_rows`)."""

    kind = "python"
    runs_as = "python"
    shape: Literal["map", "flat_map", "filter_rows"]
    function: FunctionRef
    schema: Schema | None = None
    on_error: OnError = "fail"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that the function makes, or those that come in."""
        del step
        return (), with_dead({MAIN: self.schema or schemas[0]}, self.on_error)

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """Functions see what happened and must hand it on. They must answer for a row that goes as they did when it came."""
        changes = changes._replace(kind=self.shape.replace("_rows", ""))
        if self.shape != "map":
            need_whole(changes, "nothing tells which columns the function looks at, and a delete by key has few")
        if self.shape == "filter_rows":
            return self, changes.changelog
        return self, made_by_function(changes, self.schema or changes.schemas[0])

    def describe(self) -> str:
        """The function, and what is made of its answers."""
        return f"{self.shape} {self.function.describe()}"

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MapBatches(Operation):
    """A Python function from Arrow batch to Arrow batch."""

    kind = "map_batches"
    runs_as = "batch"
    function: FunctionRef
    schema: Schema

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that the function makes."""
        del step, schemas
        return (), {MAIN: self.schema}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """As for functions of single rows."""
        return self, made_by_function(changes, self.schema)

    def describe(self) -> str:
        """The function."""
        return self.function.describe()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Union(Operation):
    """The rows of several inputs with one schema."""

    kind = "union"
    runs_as = "batch"
    takes = "several"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns of any input; they may be null where those of one may."""
        first = schemas[0]
        for other in schemas[1:]:
            if [(f.name, f.type) for f in other] != [(f.name, f.type) for f in first]:
                msg = "union of different schemas"
                hint = "select the same columns first"
                raise InvalidStep(msg, code="STEP-045", step=step.id, found=other.ddl, known=first.ddl, hint=hint)
        fields = (Field(f.name, f.type, any(schema[f.name].nullable for schema in schemas)) for f in first)
        return (), {MAIN: Schema(tuple(fields))}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """Of rows that come and go whole it does not matter which stream was first."""
        need_whole(changes, "of two changes of a key, nothing tells which came last")
        if any(each is None or not each.is_whole or each.op != changes.changelog.op for each in changes.came):
            msg = "union of changes with rows, or with changes of another form"
            found = "; ".join("rows" if each is None else each.describe() for each in changes.came)
            hint = "make all of them changes of one form, with the same column for what happened"
            raise changes.refused(msg, "CHANGE-006", found=found, hint=hint)
        # Rows of two tables may have the same key.
        return self, dataclasses.replace(changes.changelog, keys=())

    def describe(self) -> str:
        """The same for every union."""
        return "rows of all inputs"


def _projected(columns: Columns, schema: Schema, step: str) -> Outputs:
    parsed = tuple((name, parse_expression(text, schema, step=step)) for name, text in columns)
    return parsed, {MAIN: Schema(tuple(Field(name, e.type, _may_be_null(e, schema)) for name, e in parsed))}


def _may_be_null(expression: Expression, schema: Schema) -> bool:
    return expression.text not in schema or schema[expression.text].nullable


def _columns_text(columns: Columns) -> str:
    return ", ".join(name if text in {name, f"`{name}`"} else f"{name} = {text}" for name, text in columns)
