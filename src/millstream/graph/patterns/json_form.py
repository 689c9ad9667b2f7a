"""Reads the JSON form of a pattern."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Clause, Condition, Stage


def pattern_from_json(value: Any, *, step: str | None = None) -> PatternSpec:
    """Read a pattern back; unknown fields and ill-typed values are refused."""
    fields = _fields(PatternSpec, value, step)
    fields["stages"] = tuple(_stage(each, step) for each in _listed(fields.get("stages"), step))
    return PatternSpec(**fields)


def _stage(value: Any, step: str | None) -> Stage:
    fields = _fields(Stage, value, step)
    fields["where"] = tuple(_clause(each, step) for each in _listed(fields.get("where", []), step))
    fields["group"] = tuple(_stage(each, step) for each in _listed(fields.get("group", []), step))
    if "until" in fields:
        fields["until"] = _condition(fields["until"], step)
    return Stage(**fields)


def _clause(value: Any, step: str | None) -> Clause:
    if isinstance(value, Mapping) and "condition" in value:
        fields = _fields(Clause, value, step)
        return Clause(join=fields.get("join", "and"), condition=_condition(fields["condition"], step))
    return Clause(condition=_condition(value, step))


def _condition(value: Any, step: str | None) -> Condition:
    """Text is an expression; a function is `{"function": "module:name"}`."""
    if isinstance(value, str):
        return Condition(text=value)
    fields = _fields(Condition, value, step)
    if "function" in fields:
        return Condition(function=function_ref(str(fields["function"]), step=step))
    return Condition(text=fields.get("text"))


def _fields(kind: type[Any], value: Any, step: str | None) -> dict[str, Any]:
    known = {field.name: field for field in dataclasses.fields(kind)}
    if not isinstance(value, Mapping) or any(name not in known for name in value):
        msg = f"not the JSON form of a {kind.__name__.removesuffix('Spec').lower()}"
        raise InvalidStep(
            msg, code="STEP-110", step=step, found=repr(value)[:200], known=known, hint="use known fields"
        )
    for name, content in value.items():
        wanted = _TYPES.get(name)
        if wanted is not None and (not isinstance(content, wanted) or (isinstance(content, bool) and wanted is int)):
            msg = f"field {name!r} of a pattern has a wrong value"
            raise InvalidStep(msg, code="STEP-110", step=step, found=repr(content), hint=f"correct {name}")
    return dict(value)


_TYPES: dict[str, Any] = {
    "name": str,
    "contiguity": str,
    "inner": str,
    "least": int,
    "most": int | None,
    "gap": int | None,
    "repeat_gap": int | None,
    "within": int | None,
    "optional": bool,
    "greedy": bool,
    "skip": str,
    "skip_to": str | None,
}


def _listed(value: Any, step: str | None) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        msg = "a pattern lists its stages, and a stage its conditions"
        raise InvalidStep(msg, code="STEP-110", step=step, found=repr(value), hint="write a list")
    return list(value)
