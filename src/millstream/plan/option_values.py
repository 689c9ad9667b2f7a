"""Values of run options as they are used: checked, and read from the forms in which people write them."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidPlan
from millstream.model.time import duration_ms

Milliseconds = int | str | dt.timedelta
"""A whole number of milliseconds, or a duration such as `10s`."""


def milliseconds(name: str, value: object) -> int:
    """A duration; a bare number is milliseconds."""
    if isinstance(value, (str, dt.timedelta)):
        return duration_ms(value, what=name)
    return whole(name, value, "milliseconds, or a duration such as '10s'")


def whole(name: str, value: object, known: str = "a whole number") -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise wrong(name, value, known)


def path_or_url(name: str, value: object) -> str | None:
    """A path or url as text; `None` stays."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return None if value is None else os.fspath(value)
    raise wrong(name, value, "a path as text or Path")


def settings(name: str, value: object) -> tuple[tuple[str, str], ...]:
    """Spark settings, from a mapping or from pairs; numbers and flags become the text that Spark expects.

    What is wrong is told by its type alone: it may hold a password.
    """
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, (list, tuple)):
        raise wrong(name, type(value), "{'spark.key': 'value'}, or pairs of them")
    return tuple(_setting(name, pair) for pair in pairs)


def flag(name: str, value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise wrong(name, value, "True or False")


def of_kind(name: str, value: object, kind: type[Any], example: str) -> None:
    """Refuse a value of another class."""
    if not isinstance(value, kind):
        raise wrong(name, value, f"{kind.__name__}, such as {name}={example}")


def wrong(name: str, value: object, known: str) -> InvalidPlan:
    """The error for a value that an option does not take."""
    msg = f"option {name!r} has a wrong value"
    return InvalidPlan(msg, code="RUN-024", found=repr(value), known=known, hint=f"correct {name}=")


def _setting(name: str, pair: object) -> tuple[str, str]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise wrong(name, type(pair), "a pair of the setting's name and its value")
    key, value = pair
    if isinstance(value, bool):
        return key, str(value).lower()
    if not isinstance(value, (str, int, float)):
        option = f"{name}[{key!r}]"
        raise wrong(option, type(value), "text, a number or a flag")
    # A text stays the object it is: it may hide a secret when it is printed.
    return key, value if isinstance(value, str) else str(value)
