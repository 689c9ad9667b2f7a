"""The JSON form of a `StreamModel`: what is stored as the definition of a job. Reading it back gives an equal model."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.model import Requirements, StreamModel
from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.operations.enrich import LookupTable
from millstream.graph.operations.watermark import WatermarkSpec
from millstream.graph.patterns.json_form import pattern_from_json
from millstream.graph.patterns.pattern import PatternSpec, pattern_to_json
from millstream.graph.state import StateDescriptor
from millstream.graph.step import CoProcess, Operation, Process, Sink, Source, Step, StepInput, step_uid
from millstream.graph.windows.evictor import evictor_from_json
from millstream.graph.windows.trigger import TriggerSpec, trigger_from_json, trigger_to_json
from millstream.graph.windows.window import WindowSpec
from millstream.model.connector import ConnectorSpec, checked_options, sink_declaration, source_declaration
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import job_name, step_id
from millstream.model.schema import Schema, schema_of
from millstream.redaction import SecretUrl

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]
FORMAT = 1
_PARTS = ("format", "name", "requirements", "steps")
_DECLARED = ("states", "broadcast", "key_states", "window_states")
"""Fields that the function of a step declares."""
OPERATIONS: dict[str, type[Any]] = {kind.kind: kind for kind in typing.get_args(Operation)}


def model_to_json(model: StreamModel, *, portable: bool = True) -> dict[str, Any]:
    """A JSON value, without passwords.

    With `portable`, what another process could not read back is refused: passwords, and functions that it could not import.
    """
    return {
        "format": FORMAT,
        "name": model.name,
        "requirements": _encode(model.requirements),
        "steps": [_step_to_json(step, portable=portable) for step in model.steps],
    }


def model_from_json(value: dict[str, Any]) -> StreamModel:
    """Read a model back; unknown, missing and ill-typed fields, kinds and formats are refused."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        msg = "unknown format of a job definition"
        raise InvalidPlan(msg, code="PLAN-020", found=found, known=FORMAT, hint="write it with this version")
    if value.keys() != set(_PARTS) or not isinstance(value["steps"], list):
        msg = "not the JSON form of a job"
        raise InvalidPlan(
            msg, code="PLAN-021", found=", ".join(value), known=_PARTS, hint="write it with Job.to_json()"
        )
    requirements = dict(value["requirements"])
    requirements["guarantee"] = guarantee_of(requirements.get("guarantee", ""))
    return StreamModel(
        name=job_name(value["name"]),
        requirements=built(Requirements, requirements),
        steps=tuple(_step_from_json(step) for step in value["steps"]),
    )


def built(kind: type[T], fields: Mapping[str, Any], *, step: str | None = None) -> T:
    """A dataclass from named values, each checked against its annotation as far as that is a plain type or a choice."""
    label = getattr(kind, "kind", kind.__name__)
    if not isinstance(fields, Mapping):
        msg = f"{label} is written as a mapping"
        raise InvalidStep(msg, code="STEP-054", step=step, found=repr(fields), hint="write its fields by name")
    declared = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := [name for name in fields if name not in declared]:
        msg = f"{label} has no field {unknown[0]!r}"
        raise InvalidStep(msg, code="STEP-052", step=step, known=declared, hint="remove it or use a known field")
    missing = [name for name, field in declared.items() if name not in fields and _is_required(field)]
    if missing:
        msg = f"{label} needs {missing[0]!r}"
        raise InvalidStep(msg, code="STEP-053", step=step, known=declared, hint=f"give {missing[0]}")
    hints = typing.get_type_hints(kind)
    for name, content in fields.items():
        if not _fits(hints[name], content):
            msg = f"field {name!r} of {label} has a wrong value"
            known = declared[name].type
            raise InvalidStep(msg, code="STEP-054", step=step, found=repr(content), known=known, hint=f"correct {name}")
    return kind(**fields)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _fits(hint: Any, value: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return any(_fits(arm, value) for arm in typing.get_args(hint))
    kind = origin or getattr(hint, "__supertype__", hint)
    if not isinstance(kind, type):
        return True
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _step_to_json(step: Step, *, portable: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": step.id,
        "uid": step.uid,
        "kind": step.operation.kind,
        "has_given_id": step.has_given_id,
        **({"starts_chain": True} if step.starts_chain else {}),
    }
    for field in dataclasses.fields(step.operation):
        content = getattr(step.operation, field.name)
        functions = getattr(content, "functions", (content,))
        lost = [found for found in functions if isinstance(found, FunctionRef) and not found.is_importable]
        if lost and portable:
            msg = "function cannot be written to JSON: another process could not import it"
            raise InvalidStep(
                msg,
                code="STEP-050",
                step=step.id,
                found=lost[0].name,
                hint="move it to the top level of an importable module",
            )
        if portable and isinstance(content, ConnectorSpec):
            _refuse_passwords(content, step.id)
        if field.name not in _DECLARED:
            fields[field.name] = _encode(content)
    return {**fields, "inputs": [_encode(edge) for edge in step.inputs]}


def _refuse_passwords(connector: ConnectorSpec, step: str) -> None:
    """What is written could not be read back without its password, and must not hold it."""
    for name, content in connector.options.items():
        if isinstance(content, SecretUrl) and content.is_literal:
            msg = f"option {name!r} of connector {connector.name!r} holds a password, which is not written to JSON"
            hint = "name it instead: password_env='NAME', or user:${secret:NAME}@ in the url"
            raise InvalidStep(msg, code="JDBC-025", step=step, found=content.shown, hint=hint)


def _step_from_json(value: Any) -> Step:
    known = ("id", "kind", "inputs")
    if not isinstance(value, dict) or not all(name in value for name in known):
        msg = "a step is a mapping with an id, a kind and inputs"
        raise InvalidStep(msg, code="STEP-053", found=repr(value), known=known, hint="write it with Job.to_json()")
    fields = dict(value)
    kind, inputs, name = fields.pop("kind"), fields.pop("inputs"), step_id(fields.pop("id"))
    uid = step_uid(fields.pop("uid", name), name)
    has_given_id, starts_chain = fields.pop("has_given_id", False), fields.pop("starts_chain", False)
    if kind not in OPERATIONS:
        msg = f"unknown kind of step {kind!r}"
        raise InvalidStep(msg, code="STEP-051", step=name, known=OPERATIONS, hint="use a known kind")
    return Step(
        id=name,
        operation=_operation(OPERATIONS[kind], fields, name),
        inputs=tuple(_input(edge, name) for edge in inputs),
        has_given_id=has_given_id,
        given_uid=None if uid == name else uid,
        starts_chain=starts_chain is True,
    )


def _operation(kind: type[Any], fields: dict[str, Any], step: str) -> Any:
    decoded = {key: _DECODE.get(key, _as_is)(content, step) for key, content in fields.items() if content is not None}
    if kind in {Source, Sink} and "connector" in decoded:
        decoded["connector"] = _checked_connector(kind, decoded["connector"], step)
    if kind in {Process, CoProcess} and "function" in decoded:
        decoded["states"] = _states(decoded["function"], step)
    if kind is CoProcess and hasattr(decoded["function"].target, "broadcast_descriptors"):
        decoded["broadcast"] = tuple(decoded["function"].target.broadcast_descriptors())
    return built(kind, decoded, step=step)


def _checked_connector(kind: type[Any], connector: ConnectorSpec, step: str) -> ConnectorSpec:
    declared = source_declaration(connector, step=step) if kind is Source else sink_declaration(connector, step=step)
    options = checked_options(declared.options, connector.options, step=step, name=connector.name)
    return ConnectorSpec(connector.name, options)


def _states(function: FunctionRef, step: str) -> tuple[StateDescriptor, ...]:
    if not hasattr(function.target, "state_descriptors"):
        msg = "process takes a ProcessFunction"
        raise InvalidStep(msg, code="STEP-071", step=step, found=function.name, hint="subclass ms.ProcessFunction")
    return tuple(function.target.state_descriptors())


def _input(value: Any, step: str) -> StepInput:
    fields = {**value, "keys": tuple(value.get("keys", ()))} if isinstance(value, dict) else value
    return built(StepInput, fields, step=step)


def _encode(value: Any) -> Any:
    match value:
        case Schema():
            return value.ddl
        case FunctionRef():
            return value.name
        case PatternSpec():
            return pattern_to_json(value)
        case TriggerSpec():
            return trigger_to_json(value)
        case tuple() | list():
            return [_encode(item) for item in value]
        case SecretUrl():
            return value.shown
        case dict():
            return {name: _encode(item) for name, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


def _as_is(value: Any, _: str) -> Any:
    return value


def _pairs(decode: Decoder) -> Decoder:
    def decoded(value: Any, step: str) -> tuple[tuple[str, Any], ...]:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            msg = "not a list of pairs"
            raise InvalidStep(
                msg, code="STEP-054", step=step, found=repr(value), known="[[name, value], ...]", hint="correct it"
            )
        return tuple((name, decode(content, step)) for name, content in value)

    return decoded


def _function(value: Any, step: str) -> FunctionRef:
    return function_ref(str(value), step=step)


def _schema(value: Any, _: str) -> Schema:
    return schema_of(value)


_DECODE: dict[str, Decoder] = {
    "table": lambda value, step: built(LookupTable, value, step=step),
    "on": _pairs(_as_is),
    "schema": _schema,
    "connector": lambda value, step: built(ConnectorSpec, value, step=step),
    "function": _function,
    "reduce": _function,
    "process": _function,
    "watermark": lambda value, step: built(WatermarkSpec, value, step=step),
    "window": lambda value, step: built(WindowSpec, value, step=step),
    "trigger": lambda value, step: trigger_from_json(value, step=step),
    "evictor": lambda value, step: evictor_from_json(value, step=step),
    "columns": _pairs(_as_is),
    "aggregates": _pairs(lambda value, step: built(Aggregate, value, step=step)),
    "outputs": _pairs(_schema),
    "pattern": lambda value, step: pattern_from_json(value, step=step),
    "measures": _pairs(_as_is),
    "timed_out": _function,
    "timed_out_measures": _pairs(_as_is),
    "timed_out_schema": _schema,
    "order_by": lambda value, _: tuple(value),
}
