"""The settings of a running service, as an operator may see them: each with its value and where that comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from millstream.redaction import shown_setting
from millstream.server.limits import Limits

DEFAULT = "default"


class Setting(NamedTuple):
    """One setting."""

    name: str
    value: Any
    source: str


def settings_of_options(options: Mapping[str, Any], sources: Mapping[str, str]) -> tuple[Setting, ...]:
    """What the service was started with; `sources` says where that comes from which is not so by default."""
    return tuple(Setting(name, shown_value(name, value), sources.get(name, DEFAULT)) for name, value in options.items())


def settings_of_limits(limits: Limits) -> Iterator[Setting]:
    """What one caller may ask for."""
    for name, value in dataclasses.asdict(limits).items():
        yield Setting(f"limits.{name}", value, DEFAULT)


def shown_value(name: str, value: Any) -> Any:
    """A value without passwords, in a form that JSON has."""
    match value:
        case None | bool() | int() | float():
            return value
        case Path() | str():
            return shown_setting(name, str(value))
        case Mapping():
            return {str(key): shown_value(str(key), each) for key, each in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return {key: shown_value(key, each) for key, each in value._asdict().items()}
        case list() | tuple():
            return [shown_value(name, each) for each in value]
    return shown_setting(name, str(value))
