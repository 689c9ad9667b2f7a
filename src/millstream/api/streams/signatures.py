"""Output schemas of Python steps, from `schema=` or the function's annotations."""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.function import code_location
from millstream.graph.step import DEAD, LATE, MAIN
from millstream.model.schema import Schema, SchemaLike, is_schema_class, schema_of

_MANY = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    list,
    tuple,
    collections.abc.Sequence,
)


def output_schema(function: Any, schema: SchemaLike | None, *, step: str, many: bool) -> Schema:
    """The schema of what a function returns; `many` when it returns or yields several rows."""
    if schema is not None:
        return schema_of(schema)
    returned = _annotation(function)
    row = _item_of(returned) if many else returned
    if is_schema_class(row):
        return schema_of(row)
    msg = f"function {getattr(function, '__qualname__', function)!r} at {code_location(function)} has no output schema"
    raise InvalidStep(
        msg,
        code="STEP-060",
        step=step,
        found="no annotation" if returned is None else f"-> {returned}",
        known="a dataclass, TypedDict or pydantic model as return annotation",
        hint="pass schema='name string, total double', or annotate the return type",
    )


def _annotation(function: Any) -> Any:
    called = function if hasattr(function, "__qualname__") else getattr(type(function), "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(called).get("return")
    except (NameError, TypeError):
        return None


def _item_of(returned: Any) -> Any:
    arms = [arm for arm in typing.get_args(returned) if arm is not type(None)]
    if typing.get_origin(returned) in _MANY:
        return arms[0] if arms else None
    nested = [arm for arm in arms if typing.get_origin(arm) in _MANY]
    return _item_of(nested[0]) if nested else None


def side_outputs(outputs: Mapping[str, SchemaLike], step: str) -> tuple[tuple[str, Any], ...]:
    """Side outputs as a step holds them; the names of outputs that steps have anyway are refused."""
    for name in outputs:
        if name in {MAIN, LATE, DEAD}:
            msg = f"side output {name!r} is reserved"
            raise InvalidStep(msg, code="STEP-074", step=step, hint="choose another name")
    return tuple((name, schema_of(schema)) for name, schema in outputs.items())
