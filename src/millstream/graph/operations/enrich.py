"""Steps that ask something about each row: a table (`lookup`), or the outside world (`async_map`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges, need_whole, no_changes
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, OverChanges, PlacedStep
from millstream.graph.operations.join import right_names
from millstream.graph.outputs import OnError, with_dead
from millstream.graph.step import MAIN
from millstream.model.schema import Field, Schema

TableFormat = Literal["inline", "parquet", "csv", "json"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LookupTable:
    """Where the rows of a table are."""

    format: TableFormat
    path: str = ""
    content: str = dataclasses.field(default="", repr=False)
    """Format `inline`: the table in Arrow's IPC form, as base64 text."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Operation):
    """Each row with the rows of a table that have its values in the columns `on`."""

    kind = "lookup"
    runs_as = "batch"
    table: LookupTable
    schema: Schema
    """The columns of the table."""
    on: tuple[tuple[str, str], ...]
    """Pairs of a column of the stream and a column of the table."""
    how: Literal["inner", "left"] = "inner"
    prefix: str | None = None
    refresh: int | None = None

    def __post_init__(self) -> None:
        if not self.on:
            msg = "a lookup needs columns to look up"
            raise InvalidStep(msg, code="STEP-083", hint="give on={'column of the stream': 'column of the table'}")
        if self.refresh is not None and self.table.format == "inline":
            msg = "rows written into the job do not change"
            raise InvalidStep(msg, code="STEP-083", found="refresh=", hint="remove refresh=, or name a folder of files")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns of the stream and those of the table, which are nullable where it may have no row."""
        (rows,) = schemas
        self._check_columns(rows, step.id)
        renamed = zip(right_names(rows, self.schema, self.prefix, step.id), self.schema, strict=True)
        is_outer = self.how == "left"
        looked_up = (Field(name, field.type, field.nullable or is_outer) for name, field in renamed)
        return (), {MAIN: Schema((*rows, *looked_up))}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """A row that goes finds in the table what it found when it came, as long as that stays as it is."""
        if self.refresh is not None:
            raise no_changes(changes, hint="remove refresh=, or look up behind the last aggregate")
        need_whole(changes, "a delete by key may not have the columns that are looked up")
        return self, dataclasses.replace(changes.changelog, keys=())

    def _check_columns(self, rows: Schema, step: str) -> None:
        for mine, theirs in self.on:
            for name, schema, what in ((mine, rows, "stream"), (theirs, self.schema, "table")):
                if name not in schema:
                    msg = f"the {what} has no column {name!r}"
                    raise InvalidStep(msg, code="STEP-042", step=step, known=schema.names, hint="correct on=")
            if rows[mine].type != self.schema[theirs].type:
                msg = "the column of the stream and that of the table have different types"
                raise InvalidStep(
                    msg,
                    code="STEP-047",
                    step=step,
                    found=f"{theirs} {self.schema[theirs].type_name}",
                    known=f"{mine} {rows[mine].type_name}",
                    hint="cast one of them before, or give schema= of the table",
                )

    def describe(self) -> str:
        """The table, and the columns that are compared."""
        where = self.table.path or "rows of the job"
        return f"{self.how}, {where} on " + ", ".join(f"{mine} = {theirs}" for mine, theirs in self.on)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsyncMap(Operation):
    """A coroutine function per row, many at a time."""

    kind = "async_map"
    runs_as = "python"
    function: FunctionRef
    schema: Schema
    concurrency: int = 100
    timeout: int | None = None
    retries: int = 0
    backoff: int = 100
    ordered: bool = True
    on_error: OnError = "fail"

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("backoff", 0)):
            number = getattr(self, name)
            if type(number) is not int or number < least:
                msg = f"{name} is not a whole number from {least} on"
                raise InvalidStep(msg, code="STEP-084", found=repr(number), hint=f"correct {name}=")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The rows that the function makes."""
        del step, schemas
        return (), with_dead({MAIN: self.schema}, self.on_error)

    def describe(self) -> str:
        """The function, and how many calls of it are under way."""
        order = "in order" if self.ordered else "as they come"
        return f"{self.function.describe()}, {self.concurrency} at a time, {order}"
