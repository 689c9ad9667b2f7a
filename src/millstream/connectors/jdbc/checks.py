"""Checks of single options, for both halves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.model.time import duration_ms

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def variable_name(value: str | None) -> str | None:
    """The name of an environment variable."""
    if value is not None and not _VARIABLE.fullmatch(value):
        msg = "the name of an environment variable"
        raise ValueError(msg)
    return value


def column_names(given: str | Sequence[str] | None) -> list[str] | None:
    """Different column names; one may stand by itself."""
    if given is None:
        return None
    value = [given] if isinstance(given, str) else given
    if not all(isinstance(name, str) for name in value) or len(set(value)) != len(value):
        msg = "different column names"
        raise ValueError(msg)
    return list(value)


def listed(value: Any) -> Any:
    """Several names as a list; what is none stays as it is, to be refused by name."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def duration(value: str) -> str:
    """A duration as text."""
    try:
        duration_ms(value)
    except InvalidStep:
        msg = "a duration such as '10s'"
        raise ValueError(msg) from None
    return value


def above_zero(value: int) -> int:
    """A number above zero."""
    if value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value
