"""Steps that ask something about each row: a table (`lookup`), or the outside world (`async_map`)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.operations.join import right_names
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
class Lookup:
    """Each row with the rows of a table that have its values in the columns `on`."""

    kind: ClassVar = "lookup"
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsyncMap:
    """A coroutine function per row, many at a time."""

    kind: ClassVar = "async_map"
    function: FunctionRef
    schema: Schema
    concurrency: int = 100
    timeout: int | None = None
    retries: int = 0
    backoff: int = 100
    ordered: bool = True
    on_error: Literal["fail", "skip", "dead_letter"] = "fail"

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("backoff", 0)):
            found = getattr(self, name)
            if type(found) is not int or found < least:
                msg = f"{name} is not a whole number from {least} on"
                raise InvalidStep(msg, code="STEP-084", found=repr(found), hint=f"correct {name}=")


def looked_up_schema(rows: Schema, operation: Lookup, step: str) -> Schema:
    """The columns of a stream behind a lookup; those of the table are nullable where it may have no row."""
    for mine, theirs in operation.on:
        for name, schema, what in ((mine, rows, "stream"), (theirs, operation.schema, "table")):
            if name not in schema:
                msg = f"the {what} has no column {name!r}"
                raise InvalidStep(msg, code="STEP-042", step=step, known=schema.names, hint="correct on=")
        if rows[mine].type != operation.schema[theirs].type:
            msg = "the column of the stream and that of the table have different types"
            raise InvalidStep(
                msg,
                code="STEP-047",
                step=step,
                found=f"{theirs} {operation.schema[theirs].type_name}",
                known=f"{mine} {rows[mine].type_name}",
                hint="cast one of them before, or give schema= of the table",
            )
    names = right_names(rows, operation.schema, operation.prefix, step)
    is_outer = operation.how == "left"
    found = zip(names, operation.schema, strict=True)
    return Schema((*rows, *(Field(name, field.type, field.nullable or is_outer) for name, field in found)))
