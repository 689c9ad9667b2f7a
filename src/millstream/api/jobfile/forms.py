"""The forms in which values of a job file are written, and how others are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorSpec
from millstream.model.flow import FlowControl


def connector(value: Any) -> ConnectorSpec:
    """`{files: {path: in/}}`, or only the name of a connector that needs no options."""
    if isinstance(value, str):
        return ConnectorSpec(value)
    if not isinstance(value, dict) or len(value) != 1:
        raise wrong_form(value, "a connector", "{name: {option: value}}")
    name, options = next(iter(value.items()))
    return ConnectorSpec(name, {} if options is None else mapping(options, f"connector {name!r}", "{option: value}"))


def flow_control(value: Any) -> FlowControl:
    """`{strategy: drop, capacity_rows: 1000, target: 1s}`."""
    options = mapping(value, "flow:", "{strategy: drop, capacity_rows: 1000}")
    refuse_unknown(options, tuple(field.name for field in dataclasses.fields(FlowControl)), "flow:")
    return FlowControl(**options)


def column_names(written: Any, what: str) -> list[str]:
    """One column, or several."""
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong_form(written, what, "a column or a list of columns")
    return names


def mapping(value: Any, what: str, known: str) -> dict[str, Any]:
    """A value that must be a mapping."""
    if not isinstance(value, dict):
        raise wrong_form(value, what, known)
    return value


def without(named: dict[str, Any], reserved: tuple[str, ...], what: str) -> dict[str, Any]:
    """Named columns, none of which has the name of an option that the method takes beside them."""
    for name in reserved:
        if name in named:
            msg = f"{what} cannot make a column named {name!r}"
            raise InvalidStep(
                msg, code="DECL-009", known="any other name", hint="choose another name; id: names the step"
            )
    return named


def refuse_unknown(content: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Nothing may be written that would be ignored."""
    for key in content:
        if key not in known:
            msg = f"{what} has no key {key!r}"
            raise InvalidStep(msg, code="DECL-004", found=repr(key), known=known, hint="remove it or use a known key")


def wrong_form(written: object, what: str, known: str) -> InvalidStep:
    """The error for a value that is not written as the format says."""
    msg = f"{what} is written in another form"
    return InvalidStep(msg, code="DECL-006", found=repr(written), known=known, hint="see the reference of job files")


def flag(options: Mapping[str, Any], name: str) -> bool:
    """An option that is true or false, and false when it is not given."""
    given = options.get(name, False)
    if not isinstance(given, bool):
        raise wrong_form(given, f"{name}:", "true or false")
    return given
