"""Fields of values as JSON: written by what they hold, read back by their annotations, and checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.patterns.json_form import pattern_from_json
from millstream.graph.patterns.pattern import PatternSpec, pattern_to_json
from millstream.graph.state import StateDescriptor
from millstream.graph.windows.evictor import EvictorSpec, evictor_from_json
from millstream.graph.windows.trigger import TriggerSpec, trigger_from_json, trigger_to_json
from millstream.model.schema import Schema, schema_of
from millstream.redaction import SecretUrl

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]


def encoded(value: Any) -> Any:
    """A value as JSON; what has no general form stays as it is."""
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
            return [encoded(item) for item in value]
        case SecretUrl():
            return value.shown
        case dict():
            return {name: encoded(item) for name, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: encoded(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


def written_fields(kind: type[Any]) -> list[str]:
    """The fields of a dataclass that JSON holds: all but states, which functions declare."""
    hints = typing.get_type_hints(kind)
    return [field.name for field in dataclasses.fields(kind) if hints[field.name] != tuple[StateDescriptor, ...]]


def decoded(kind: type[Any], fields: Mapping[str, Any], *, step: str) -> dict[str, Any]:
    """Fields of a dataclass from JSON, each by its annotation; what has no general form stays as it is."""
    hints = typing.get_type_hints(kind)
    return {name: _decoder(hints.get(name))(content, step) for name, content in fields.items() if content is not None}


def _decoder(hint: Any) -> Decoder:
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        arms = [arm for arm in typing.get_args(hint) if arm is not types.NoneType]
        return _decoder(arms[0]) if len(arms) == 1 else _as_is
    if typing.get_origin(hint) is tuple:
        return _tuple_decoder(*typing.get_args(hint))
    if not isinstance(hint, type):
        return _as_is
    if hint in _DECODERS:
        return _DECODERS[hint]
    return _value_decoder(hint) if dataclasses.is_dataclass(hint) else _as_is


def _value_decoder(kind: Any) -> Decoder:
    def decoded_value(value: Any, step: str) -> Any:
        return built(kind, decoded(kind, value, step=step) if isinstance(value, Mapping) else value, step=step)

    return decoded_value


def _tuple_decoder(item: Any, *rest: Any) -> Decoder:
    if rest != (Ellipsis,) or item is StateDescriptor:
        return _as_is
    if typing.get_origin(item) is tuple:
        pair = typing.get_args(item)
        return _pairs(_decoder(pair[1])) if len(pair) == 2 else _as_is
    decode = _decoder(item)
    return lambda value, step: tuple(decode(each, step) for each in value) if isinstance(value, list) else value


def _pairs(decode: Decoder) -> Decoder:
    def decoded_pairs(value: Any, step: str) -> tuple[tuple[str, Any], ...]:
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            msg = "not a list of pairs"
            raise InvalidStep(
                msg, code="STEP-054", step=step, found=repr(value), known="[[name, value], ...]", hint="correct it"
            )
        return tuple((name, decode(content, step)) for name, content in value)

    return decoded_pairs


def _as_is(value: Any, _: str) -> Any:
    return value


_DECODERS: dict[type[Any], Decoder] = {
    Schema: lambda value, _: schema_of(value),
    FunctionRef: lambda value, step: function_ref(str(value), step=step),
    TriggerSpec: lambda value, step: trigger_from_json(value, step=step),
    EvictorSpec: lambda value, step: evictor_from_json(value, step=step),
    PatternSpec: lambda value, step: pattern_from_json(value, step=step),
}


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
