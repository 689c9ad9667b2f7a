"""The contract between the columns that a job declares and those that the table has: now, and after each change of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from millstream.connectors.postgres_cdc.columns import holds
from millstream.connectors.postgres_cdc.messages import TableRelation
from millstream.errors import StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True)
class TableColumns:
    """How tuples of the table, as it is for a while, become rows of the schema."""

    places: tuple[int | None, ...]
    """Per column of the schema its place in a tuple; `None` for one that the table does not have."""
    keys: tuple[int, ...]
    """The places of the key."""


def table_columns(relation: TableRelation, options: Options, schema: Schema, step: str) -> TableColumns:
    """Fit a table to the schema of its columns, as `on_ddl` allows.

    Raises:
        StepFailed: (CDC-009) a column is new, gone or of another type; (CDC-010) changes do not say enough.
    """
    check_columns(relation, options, schema, step)
    check_identity(relation.identity, [c.name for c in relation.columns if c.is_key], options, step)
    names = tuple(column.name for column in relation.columns)
    places = tuple(names.index(field.name) if field.name in names else None for field in schema)
    return TableColumns(places, tuple(names.index(key) for key in options["keys"]))


def check_columns(relation: TableRelation, options: Options, schema: Schema, step: str) -> None:
    """The published columns must be the declared ones, as far as `on_ddl` wants it.

    Raises:
        StepFailed: (CDC-009) a column is new, gone or of another type.
    """
    found = {column.name: column for column in relation.columns}
    table, mode = f"{relation.schema}.{relation.table}", options["on_ddl"]
    missing = [field.name for field in schema if field.name not in found]
    if missing and (mode != "null_missing" or set(missing) & set(options["keys"])):
        msg = f"table {table!r} has no column {missing[0]!r}, or does not publish it"
        hint = "declare the columns that it has; for null in the place of a dropped one pass on_ddl='null_missing'"
        raise _broken(msg, step, found=list(found), known=list(schema.names), hint=hint)
    new = [name for name in found if name not in schema]
    if new and mode == "fail":
        msg = f"table {table!r} has a column {new[0]!r}, which is not declared"
        hint = "add it to schema=, or pass over such columns with on_ddl='ignore_new'"
        raise _broken(msg, step, found=list(found), known=list(schema.names), hint=hint)
    for field in schema:
        if field.name in found and not holds(field, found[field.name].type_oid):
            msg = f"column {field.name!r} of table {table!r} has a type that {field.type_name} cannot hold"
            hint = "declare another type; string takes every value as PostgreSQL writes it"
            raise _broken(msg, step, found=f"type {found[field.name].type_oid}", known=field.type_name, hint=hint)


def check_identity(identity: str, identified_by: Sequence[str], options: Options, step: str) -> None:
    """Updates and deletes must tell the key of the row, or the whole row where that is wanted."""
    table, hint = options["table"], "ALTER TABLE {} REPLICA IDENTITY FULL".format(options["table"])
    if options["images"] == "both" and identity != "f":
        msg = f"changes of table {table!r} do not hold the row as it was, which images='both' needs"
        raise StepFailed(msg, code="CDC-010", step=step, found=f"replica identity {identity!r}", known="f", hint=hint)
    if identity != "f" and set(identified_by) != set(options["keys"]):
        msg = f"changes of table {table!r} do not identify rows by the columns of keys="
        known = ", ".join(options["keys"])
        found = ", ".join(identified_by) or "nothing"
        hint = f"correct keys=, or {hint}"
        raise StepFailed(msg, code="CDC-010", step=step, found=f"by {found}", known=f"by {known}", hint=hint)


def _broken(msg: str, step: str, *, found: object, known: object, hint: str) -> StepFailed:
    return StepFailed(msg, code="CDC-009", step=step, found=found, known=known, hint=hint)
