"""Steps that take rows one by one, as the user writes them, checked and turned into operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from millstream.api.streams.output import StepOutput
from millstream.api.streams.signatures import output_schema
from millstream.api.values.error_policy import OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.operations.rows import Filter, MapBatches, PythonMap, Select, WithColumns
from millstream.model.schema import SchemaLike, schema_of


def filter_operation(
    rows: StepOutput, where: str | Callable[[dict[str, Any]], object], on_error: OnErrorLike, given_id: str | None
) -> Filter | PythonMap:
    """A filter by an expression, or by a function; an expression has no error policy."""
    if not isinstance(where, str):
        return python_operation(rows, "filter_rows", where, None, on_error, given_id)
    if on_error != "fail":
        msg = "on_error of a filter needs a Python function; an expression that fails stops the job"
        raise InvalidStep(msg, code="STEP-068", step=given_id, found=where, hint="use TRY_CAST, or pass a function")
    return Filter(where=where)


def python_operation(
    rows: StepOutput,
    shape: Literal["map", "flat_map", "filter_rows"],
    function: Any,
    schema: SchemaLike | None,
    on_error: OnErrorLike,
    given_id: str | None,
) -> PythonMap:
    """A Python function that is called row by row."""
    label = given_id or f"{rows.step}.{shape}"
    reference = function_ref(function, step=label)
    target = None
    if shape != "filter_rows":
        target = output_schema(reference.target, schema, step=label, many=shape == "flat_map")
    return PythonMap(shape=shape, function=reference, schema=target, on_error=policy(on_error, label))


def batch_operation(
    rows: StepOutput, function: Callable[[Any], Any] | str, schema: SchemaLike | None, given_id: str | None
) -> MapBatches:
    """A function from Arrow batch to Arrow batch; without a schema the columns stay as they are."""
    target = rows.schema if schema is None else schema_of(schema)
    return MapBatches(function=function_ref(function, step=given_id), schema=target)


def selected_columns(
    rows: StepOutput, columns: Iterable[str | Mapping[str, str]], named: Mapping[str, str], given_id: str | None
) -> Select:
    """Exactly these columns: names, mappings of name to expression, and expressions by name."""
    pairs: list[tuple[str, str]] = []
    for column in columns:
        pairs += column.items() if isinstance(column, Mapping) else [(column, f"`{column}`")]
    return Select(columns=_checked_columns(rows, [*pairs, *named.items()], "select", given_id))


def added_columns(
    rows: StepOutput, columns: Mapping[str, str], named: Mapping[str, str], given_id: str | None
) -> WithColumns:
    """Columns that are added or replaced."""
    pairs = [*columns.items(), *named.items()]
    return WithColumns(columns=_checked_columns(rows, pairs, "with_columns", given_id))


def _checked_columns(
    rows: StepOutput, pairs: list[tuple[str, str]], method: str, given_id: str | None
) -> tuple[tuple[str, str], ...]:
    """At least one column, each with the text that computes it; `id=` was not meant as one."""
    if given_id in rows.schema:
        msg = f"id= names the step, and {given_id!r} is a column"
        hint = f"for a column called id write {method}({{'id': {given_id!r}}}), else give the step another id"
        raise InvalidStep(msg, code="STEP-075", step=rows.step, hint=hint)
    if not pairs:
        msg = f"{method} needs at least one column"
        raise InvalidStep(msg, code="STEP-067", step=rows.step, hint=f"{method}(total='price * quantity')")
    for name, text in pairs:
        if not isinstance(text, str):
            msg, hint = f"column {name!r} is not an expression", "write the expression as text"
            raise InvalidStep(msg, code="STEP-067", step=rows.step, found=repr(text), hint=hint)
    return tuple(pairs)
