"""Calls of reductions and window functions, and what they may return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from millstream.errors import StepFailed
from millstream.graph.function import FunctionRef
from millstream.runtime.bad_records import USER_PROBLEMS, failure
from millstream.runtime.chain.made_rows import as_mapping, is_row

_SHOWN = 200


def called(step: str, record: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call user code; a failure names the step, the user's line and the record."""
    try:
        made = function(*arguments)
        return list(made) if isinstance(made, Iterator) else made
    except USER_PROBLEMS as problem:
        raise failure(step, record, problem) from problem


def reduced_row(step: str, function: FunctionRef, held: dict[str, Any], came: dict[str, Any]) -> Mapping[str, Any]:
    """What a reduction makes of two rows: a row."""
    made = called(step, came, function.target, held, came)
    if not is_row(made):
        msg = f"the reduction {function.name} returned something else than a row"
        hint = "return one row made of both, as a dict, dataclass or named tuple"
        raise StepFailed(msg, code="STEP-240", step=step, found=_shown(made), known="a row", hint=hint)
    return as_mapping(made)


def rows_made(step: str, key: dict[str, Any], function: Callable[..., Any], *arguments: Any) -> Iterable[Any]:
    """The rows that a window function gives; `None` stands for none."""
    made = called(step, key, function, *arguments)
    if made is None:
        return ()
    if is_row(made) or isinstance(made, (str, bytes)) or not isinstance(made, Iterable):
        msg = "the window function returned something else than rows"
        hint = "return a list of rows or yield them, as in `return [row]`; None gives no rows"
        raise StepFailed(msg, code="STEP-241", step=step, found=_shown(made), known="rows, or None", hint=hint)
    rows = list(made)
    for row in rows:
        if not is_row(row):
            msg = "the window function gave something else than a row"
            hint = "yield dicts, dataclasses or named tuples with the columns of its schema"
            raise StepFailed(msg, code="STEP-241", step=step, found=_shown(row), known="a row", hint=hint)
    return rows


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"[:_SHOWN]
