"""An SQL expression over the columns of one step: text in Spark's dialect, checked, typed, ready for the workers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from millstream.graph.expressions.refusal import NOT_BOOLEAN, Site
from millstream.model.schema import Schema
from millstream.model.types import type_name

BATCH = "batch"
"""The relation that the SQL of an expression reads."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Checked expression text. Equal text over equal columns gives equal expressions."""

    text: str
    sql: str
    """DuckDB SQL over a relation named `batch`, in which timestamps are plain and in UTC."""
    columns: tuple[str, ...]
    """Input columns used, in order of first use."""
    type: pa.DataType
    direct: tuple[Any, ...] | None = dataclasses.field(default=None, repr=False)
    """The same meaning in pyarrow's kernels, for the simple cases where they agree with Spark."""

    def only_where(self, where: Expression) -> Expression:
        """This expression for rows for which another is true, null for the rest: there it is not evaluated."""
        return dataclasses.replace(
            self,
            text=f"CASE WHEN {where.text} THEN {self.text} END",
            sql=f"(CASE WHEN {where.sql} THEN {self.sql} END)",
            columns=tuple(dict.fromkeys((*where.columns, *self.columns))),
            direct=None,
        )


def parse_expression(text: str, schema: Schema, *, step: str | None = None) -> Expression:
    """Check an expression against a schema and give it Spark's result type.

    Raises:
        InvalidExpression: the text does not parse, names unknown columns or functions, or does not type-check.
    """
    # They bring the SQL parser along, which a job without expressions does not need.
    from millstream.graph.expressions.compile import Compiler
    from millstream.graph.expressions.reading import read

    site = Site(text=text, step=step)
    return Compiler(schema, site).expression(read(site))


def parse_predicate(text: str, schema: Schema, *, step: str | None = None) -> Expression:
    """Check an expression that must be boolean, as `filter` needs.

    Raises:
        InvalidExpression: as `parse_expression`, and when the result is not boolean.
    """
    parsed = parse_expression(text, schema, step=step)
    if parsed.type != pa.bool_():
        site = Site(text=text, step=step)
        raise site.refuse(NOT_BOOLEAN, "must be boolean", found=type_name(parsed.type), hint="compare it, as in x > 0")
    return parsed
