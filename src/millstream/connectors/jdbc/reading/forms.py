"""How each column is asked for, by what the database has and what the schema wants; what cannot be read is refused here.

| form | asked for |
|---|---|
| `plain` | as it is |
| `text` | as text, which is parsed: decimals, and what has no form of its own in Arrow |
| `texts` | an array of such text |
| `double` | as a double |
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from millstream.errors import InvalidSchema
from millstream.model.schema import Field, Schema
from millstream.model.types import type_name

Forms = Mapping[str, str]
"""Columns that are not read plainly, and how they are."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_CASTS = (
    (r"numeric.*|decimal.*", "{}::numeric(38,10)"),
    (r"money", "{}::numeric(38,2)"),
    (r"interval", "extract(epoch FROM {})::double precision"),
    (r"oid|xid|cid", "{}::bigint"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of a query or table: what the database calls its type, and the type of ours that holds all its values."""

    name: str
    type: str
    read_as: pa.DataType | None
    nullable: bool = True
    cast: str = "CAST({} AS TEXT)"
    """How the database casts a column to text."""


def schema_from(columns: Sequence[SourceColumn], *, step: str | None) -> Schema:
    """The schema of all columns, where the author of a job gives none."""
    for column in columns:
        if column.read_as is None:
            raise _no_type(column, step)
    return Schema(tuple(Field(each.name, each.read_as, each.nullable) for each in columns))


def forms_of(
    columns: Sequence[SourceColumn],
    schema: Schema,
    form: Callable[[SourceColumn, pa.DataType], str | None],
    *,
    step: str,
) -> Forms:
    """How to read each column that a schema wants; `form` knows the database.

    Raises:
        InvalidSchema: (JDBC-031) a column is missing; (JDBC-032) it cannot be read as the type that is wanted.
    """
    there = {column.name: column for column in columns}
    forms = {}
    for field in schema:
        column = there.get(field.name)
        if column is None:
            msg = f"the query or table has no column {field.name!r}"
            hint = "correct the schema, or name the column in the query with AS"
            raise InvalidSchema(msg, code="JDBC-031", step=step, known=list(there), hint=hint)
        chosen = form(column, field.type)
        if chosen is None:
            raise _unfit(column, field, step)
        if chosen != "plain":
            forms[field.name] = chosen
    return forms


def _no_type(column: SourceColumn, step: str | None) -> InvalidSchema:
    msg = f"column {column.name!r} has a type without a counterpart here"
    hint = f"cast it in a query, as in {_cast(column)}, or pass schema= with the type to read it as"
    return InvalidSchema(msg, code="JDBC-032", step=step, found=column.type or "no type", hint=hint)


def _unfit(column: SourceColumn, field: Field, step: str) -> InvalidSchema:
    msg = f"column {field.name!r} cannot be read as {field.type_name}"
    natural = "string" if column.read_as is None else type_name(column.read_as)
    hint = f"declare it as {natural}, or cast it in a query"
    return InvalidSchema(msg, code="JDBC-032", step=step, found=column.type, known=natural, hint=hint)


def _cast(column: SourceColumn) -> str:
    mark = '"' if "::" in column.cast else "`"
    name = column.name if _PLAIN.fullmatch(column.name) else mark + column.name.replace(mark, mark * 2) + mark
    for pattern, written in _CASTS:
        if re.fullmatch(pattern, column.type) and "::" in column.cast:
            return written.format(name)
    return column.cast.format(name)
