"""Steps that take rows one by one, as the user writes them, checked and turned into operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from millstream.api.streams.signatures import output_schema
from millstream.api.values.named import OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.step import Filter, PythonMap
from millstream.model.schema import Schema, SchemaLike

Shape = Literal["map", "flat_map", "filter_rows"]


def filter_operation(
    where: str | Callable[[dict[str, Any]], object], on_error: OnErrorLike, given_id: str | None, before: str
) -> Filter | PythonMap:
    """A filter by an expression, or by a function; an expression has no error policy."""
    if not isinstance(where, str):
        return python_operation("filter_rows", where, None, on_error, given_id or f"{before}.filter_rows")
    if on_error != "fail":
        msg = "on_error of a filter needs a Python function; an expression that fails stops the job"
        raise InvalidStep(msg, code="STEP-068", step=given_id, found=where, hint="use TRY_CAST, or pass a function")
    return Filter(where=where)


def python_operation(
    shape: Shape, function: Any, schema: SchemaLike | None, on_error: OnErrorLike, label: str
) -> PythonMap:
    """A Python function that is called row by row; `label` names the step in messages."""
    reference = function_ref(function, step=label)
    target = None
    if shape != "filter_rows":
        target = output_schema(reference.target, schema, step=label, many=shape == "flat_map")
    return PythonMap(shape=shape, function=reference, schema=target, on_error=policy(on_error, label))


def selected_columns(columns: Iterable[str | Mapping[str, str]], named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names, and mappings of name to expression, as pairs of both."""
    pairs: list[tuple[str, str]] = []
    for column in columns:
        pairs += column.items() if isinstance(column, Mapping) else [(column, f"`{column}`")]
    return [*pairs, *named.items()]


def checked_columns(
    pairs: list[tuple[str, str]], *, method: str, given_id: str | None, schema: Schema, step: str
) -> tuple[tuple[str, str], ...]:
    """At least one column, each with the text that computes it; `id=` was not meant as one."""
    if given_id in schema:
        msg = f"id= names the step, and {given_id!r} is a column"
        hint = f"for a column called id write {method}({{'id': {given_id!r}}}), else give the step another id"
        raise InvalidStep(msg, code="STEP-075", step=step, hint=hint)
    if not pairs:
        msg = f"{method} needs at least one column"
        raise InvalidStep(msg, code="STEP-067", step=step, hint=f"{method}(total='price * quantity')")
    for name, text in pairs:
        if not isinstance(text, str):
            msg = f"column {name!r} is not an expression"
            raise InvalidStep(msg, code="STEP-067", step=step, found=repr(text), hint="write the expression as text")
    return tuple(pairs)
