"""Where a source of numbered messages begins and ends: the words users have for it, in the one form that is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

_EXPECTED = "'earliest', 'latest', a number of a message, or a time such as '2024-05-01T00:00:00Z'"


def checked_start(value: Any) -> Any:
    """A word, `{"number": n}` or `{"time": milliseconds}`; `None` where a source has no beginning of its own."""
    if value is None or value in ("earliest", "latest"):
        return value
    if isinstance(value, Mapping) and len(value) == 1 and set(value) <= {"number", "time"}:
        return dict(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(_EXPECTED)
        return {"number": value}
    if isinstance(value, (str, dt.datetime)):
        return {"time": _milliseconds(value)}
    raise ValueError(_EXPECTED)


def checked_until(value: Any) -> Any:
    """An end in the same forms; `None` where the source has none."""
    if value == "earliest":
        msg = "an end behind the beginning: 'latest', a number, or a time"
        raise ValueError(msg)
    return checked_start(value)


def _milliseconds(value: str | dt.datetime) -> int:
    try:
        instant = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if instant.tzinfo is None:
        msg = f"a time with its zone, such as '{instant.isoformat()}Z'"
        raise ValueError(msg)
    return round(instant.timestamp() * 1000)


def instant_of(milliseconds: int) -> dt.datetime:
    """The time that a beginning names."""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
