"""The values that events and memory may hold, their copies, and their one written form.

JSON has no bytes, times or ids, and no numbers beyond a double: such a value is written as `{"$": kind, "v": text}`, so that it
comes back as what it was. The same form serves every store and every engine.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from millstream.registry import load_of_user

_TAG, _VALUE, _CLASS = "$", "v", "class"
_PLAIN = (type(None), bool, str)
_LARGEST = 2**63 - 1
_WRITERS: dict[type, tuple[str, Callable[[Any], str]]] = {
    uuid.UUID: ("uuid", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    dt.datetime: ("datetime", dt.datetime.isoformat),
    dt.date: ("date", dt.date.isoformat),
    decimal.Decimal: ("decimal", str),
}
_IMMUTABLE = frozenset({*_PLAIN, int, float, *_WRITERS})
_READERS: dict[str, Callable[[str], Any]] = {
    "uuid": uuid.UUID,
    "bytes": base64.b64decode,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "decimal": decimal.Decimal,
    "int": int,
    "float": float,
}
KNOWN = (
    "None, bool, int, float, str, bytes, date, datetime, Decimal, UUID, pydantic models, and lists and dicts of them"
)


def checked_copy(value: Any, place: str) -> Any:
    """A copy that shares nothing that can be changed; what has no written form is refused with its place.

    Raises:
        TypeError: something in it has no written form.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        if any(type(name) is not str for name in value):
            msg = f"{place} holds a dict with keys that are no text: {list(value)[:3]!r}"
            raise TypeError(msg)
        return {name: each if type(each) in _IMMUTABLE else checked_copy(each, place) for name, each in value.items()}
    if kind is list or kind is tuple:
        return [checked_copy(each, place) for each in value]
    if isinstance(value, BaseModel):
        _dumped(value, place)
        return value.model_copy(deep=True)
    msg = f"{place} holds a {kind.__qualname__}, which has no written form; it may hold {KNOWN}"
    raise TypeError(msg)


def _dumped(model: BaseModel, place: str) -> dict[str, Any]:
    try:
        return model.model_dump(mode="json")
    except (PydanticSerializationError, UnicodeDecodeError) as problem:
        msg = f"{place} holds a {type(model).__qualname__}, which has no written form: {problem}"
        raise TypeError(msg) from problem


def encode(value: Any) -> bytes:
    """The written form of a value."""
    return msgspec.json.encode(_written(value))


def decode(content: bytes) -> Any:
    """What was written; a model whose class is no longer there comes back as a dict."""
    return _read(msgspec.json.decode(content))


def _written(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -_LARGEST <= value <= _LARGEST else _tagged("int", str(value))
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if kind in _WRITERS:
        name, writer = _WRITERS[kind]
        return _tagged(name, writer(value))
    if kind is dict:
        made = {name: _written(each) for name, each in value.items()}
        return made if _TAG not in made else _tagged("dict", made)
    if kind is list or kind is tuple:
        return [_written(each) for each in value]
    assert isinstance(value, BaseModel), "values are checked before they are written"
    return {**_tagged("model", _dumped(value, "it")), _CLASS: f"{kind.__module__}:{kind.__qualname__}"}


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, _VALUE: value}


def _read(value: Any) -> Any:
    if type(value) is list:
        return [_read(each) for each in value]
    if type(value) is not dict:
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {name: _read(each) for name, each in value.items()}
    if kind == "dict":
        return {name: _read(each) for name, each in value[_VALUE].items()}
    if kind == "model":
        return _model(value[_CLASS], value[_VALUE])
    return _READERS[kind](value[_VALUE])


def _model(reference: str, fields: dict[str, Any]) -> Any:
    try:
        found = load_of_user(reference)
    except (ImportError, AttributeError, ValueError):
        return fields
    is_model = isinstance(found, type) and issubclass(found, BaseModel)
    return found.model_validate(fields) if is_model else fields
