"""The JSON form of a `StreamModel`: what is stored as the definition of a job. Reading it back gives an equal model."""

from __future__ import annotations

from typing import Any

from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.fields import built, decoded, encoded, written_fields
from millstream.graph.function import functions_in
from millstream.graph.model import Requirements, StreamModel
from millstream.graph.operation import Operation
from millstream.graph.operations.catalogue import is_findable, operation_class
from millstream.graph.step import Step, StepInput, step_uid
from millstream.model.connector import ConnectorSpec
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import job_name, step_id
from millstream.model.mode import mode_named
from millstream.model.params import declared_params, written_params
from millstream.redaction import SecretUrl

FORMAT = 1
_PARTS = ("format", "name", "requirements", "steps")


def model_to_json(model: StreamModel, *, portable: bool = True) -> dict[str, Any]:
    """A JSON value, without passwords.

    With `portable`, what another process could not read back is refused: passwords, and operations and functions that it could
    not import.
    """
    return {
        "format": FORMAT,
        "name": model.name,
        "requirements": {**encoded(model.requirements), "params": written_params(model.requirements.params)},
        "steps": [_step_to_json(step, portable=portable) for step in model.steps],
    }


def model_from_json(value: dict[str, Any]) -> StreamModel:
    """Read a model back; unknown, missing and ill-typed fields, kinds and formats are refused."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        written = value.get("format") if isinstance(value, dict) else type(value).__name__
        msg = "unknown format of a job definition"
        raise InvalidPlan(msg, code="PLAN-020", found=written, known=FORMAT, hint="write it with this version")
    if value.keys() != set(_PARTS) or not isinstance(value["steps"], list):
        msg = "not the JSON form of a job"
        raise InvalidPlan(
            msg, code="PLAN-021", found=", ".join(value), known=_PARTS, hint="write it with Job.to_json()"
        )
    requirements = dict(value["requirements"])
    requirements["guarantee"] = guarantee_of(requirements.get("guarantee", ""))
    if requirements.get("mode") is not None:
        requirements["mode"] = mode_named(requirements["mode"])
    requirements["params"] = declared_params(requirements.get("params"))
    return StreamModel(
        name=job_name(value["name"]),
        requirements=built(Requirements, requirements),
        steps=tuple(_step_from_json(step) for step in value["steps"]),
    )


def _step_to_json(step: Step, *, portable: bool) -> dict[str, Any]:
    operation = step.operation
    if portable:
        _refuse_unportable(operation, step.id)
    contents = {name: getattr(operation, name) for name in written_fields(type(operation))}
    if not portable:
        contents = {name: each.shown if isinstance(each, ConnectorSpec) else each for name, each in contents.items()}
    in_general = {name: encoded(content) for name, content in contents.items()}
    return {
        "id": step.id,
        "uid": step.uid,
        "kind": operation.kind,
        "has_given_id": step.has_given_id,
        **({"starts_chain": True} if step.starts_chain else {}),
        **in_general,
        **operation.json_fields(),
        "inputs": [encoded(edge) for edge in step.inputs],
    }


def _refuse_unportable(operation: Operation, step: str) -> None:
    """What another process could not load must not be written for it, nor what it must not see."""
    lost = [function for function in functions_in(operation) if not function.is_importable]
    if lost:
        msg = "function cannot be written to JSON: another process could not import it"
        hint = "move it to the top level of an importable module"
        raise InvalidStep(msg, code="STEP-050", step=step, found=lost[0].name, hint=hint)
    if not is_findable(type(operation)):
        msg = "operation cannot be written to JSON: its kind does not lead another process to it"
        hint = "move it to the top level of an importable module, or name the entry point that brings it as its kind"
        raise InvalidStep(msg, code="STEP-057", step=step, found=operation.kind, hint=hint)
    for name in written_fields(type(operation)):
        content = getattr(operation, name)
        if isinstance(content, ConnectorSpec):
            _refuse_passwords(content, step)


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
    return Step(
        id=name,
        operation=_operation(operation_class(kind, step=name), fields, name),
        inputs=tuple(_input(edge, name) for edge in inputs),
        has_given_id=has_given_id,
        given_uid=None if uid == name else uid,
        starts_chain=starts_chain is True,
    )


def _operation(kind: type[Operation], fields: dict[str, Any], step: str) -> Operation:
    return built(kind, kind.fields_from_json(decoded(kind, fields, step=step), step), step=step)


def _input(value: Any, step: str) -> StepInput:
    fields = {**value, "keys": tuple(value.get("keys", ()))} if isinstance(value, dict) else value
    return built(StepInput, fields, step=step)
