"""The JSON form of a `StreamModel`: what is stored as the definition of a job. Reading it back gives an equal model."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.aggregate import Aggregate
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.model import Requirements, StreamModel
from millstream.graph.step import Operation, Process, Step, StepInput
from millstream.graph.window import WindowSpec
from millstream.model.connector import ConnectorSpec
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import StepId, step_id
from millstream.model.schema import Schema, schema_of

FORMAT = 1
OPERATIONS: dict[str, type[Any]] = {kind.kind: kind for kind in typing.get_args(Operation)}


def model_to_json(model: StreamModel, *, portable: bool = True) -> dict[str, Any]:
    """A JSON value. With `portable`, functions that another process could not import are refused."""
    return {
        "format": FORMAT,
        "name": model.name,
        "requirements": _encode(model.requirements),
        "steps": [_step_to_json(step, portable=portable) for step in model.steps],
    }


def model_from_json(value: dict[str, Any]) -> StreamModel:
    """Read a model back; unknown fields, kinds and formats are refused."""
    if value.get("format") != FORMAT:
        msg = "unknown format of a job definition"
        raise InvalidPlan(msg, code="PLAN-020", found=value.get("format"), known=FORMAT, hint="write it with this version")
    requirements = dict(value["requirements"])
    requirements["guarantee"] = guarantee_of(requirements["guarantee"])
    return StreamModel(
        name=value["name"],
        requirements=Requirements(**requirements),
        steps=tuple(_step_from_json(step) for step in value["steps"]),
    )


def _step_to_json(step: Step, *, portable: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": step.id, "kind": step.operation.kind, "has_given_id": step.has_given_id}
    for field in dataclasses.fields(step.operation):
        content = getattr(step.operation, field.name)
        if isinstance(content, FunctionRef) and portable and not content.is_importable:
            msg = "function cannot be written to JSON: another process could not import it"
            raise InvalidStep(
                msg, code="STEP-050", step=step.id, found=content.name, hint="move it to the top level of an importable module"
            )
        if field.name != "states":
            fields[field.name] = _encode(content)
    return {**fields, "inputs": [_encode(edge) for edge in step.inputs]}


def _step_from_json(value: dict[str, Any]) -> Step:
    fields = dict(value)
    kind, inputs, name = fields.pop("kind"), fields.pop("inputs"), fields.pop("id")
    has_given_id = fields.pop("has_given_id", False)
    if kind not in OPERATIONS:
        msg = f"unknown kind of step {kind!r}"
        raise InvalidStep(msg, code="STEP-051", step=name, known=OPERATIONS, hint="use a known kind")
    operation_class = OPERATIONS[kind]
    known = {field.name for field in dataclasses.fields(operation_class)}
    if unknown := sorted(set(fields) - known):
        msg = f"a {kind} step has no field {unknown[0]!r}"
        raise InvalidStep(msg, code="STEP-052", step=name, known=known, hint="remove it or use a known field")
    decoded = {key: _DECODE.get(key, _as_is)(content) for key, content in fields.items() if content is not None}
    if operation_class is Process:
        decoded["states"] = tuple(decoded["function"].target.state_descriptors())
    edges = tuple(StepInput(**{**edge, "step": StepId(edge["step"]), "keys": tuple(edge["keys"])}) for edge in inputs)
    return Step(id=step_id(name), operation=operation_class(**decoded), inputs=edges, has_given_id=has_given_id)


def _encode(value: Any) -> Any:
    match value:
        case Schema():
            return value.ddl
        case FunctionRef():
            return value.name
        case tuple() | list():
            return [_encode(item) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


def _as_is(value: Any) -> Any:
    return value


def _pairs(decode: Callable[[Any], Any]) -> Callable[[Any], tuple[tuple[str, Any], ...]]:
    return lambda value: tuple((name, decode(content)) for name, content in value)


_DECODE: dict[str, Callable[[Any], Any]] = {
    "schema": schema_of,
    "connector": lambda value: ConnectorSpec(**value),
    "function": function_ref,
    "reduce": function_ref,
    "process": function_ref,
    "window": lambda value: WindowSpec(**value),
    "columns": _pairs(_as_is),
    "aggregates": _pairs(lambda value: Aggregate(**value)),
    "outputs": _pairs(schema_of),
}
