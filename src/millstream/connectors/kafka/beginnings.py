"""Where a Kafka source begins and ends: the words users have for it, and the offsets they mean."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

_LARGEST_OFFSET = 2**63 - 1
_WORDS = ("earliest", "latest", "group")
_EXPECTED = (
    "'earliest', 'latest', 'group', a time such as '2024-05-01T00:00:00Z', or offsets such as {'orders': {'0': 17}}"
)


def checked_start(value: Any) -> Any:
    """A beginning in the one form that is kept: a word, `{"time": milliseconds}` or `{"offsets": {topic: {partition: n}}}`."""
    if value in _WORDS:
        return value
    if isinstance(value, Mapping) and set(value) == {"time"} and isinstance(value["time"], int):
        return dict(value)
    if isinstance(value, (str, dt.datetime)):
        return {"time": _milliseconds(value)}
    offsets = value.get("offsets", value) if isinstance(value, Mapping) else None
    if not isinstance(offsets, Mapping) or not offsets:
        raise ValueError(_EXPECTED)
    return {"offsets": {str(topic): _of_partitions(at) for topic, at in offsets.items()}}


def checked_until(value: Any) -> Any:
    """An end in the same forms; `None` where the source has none."""
    if value is None:
        return None
    if value == "earliest":
        msg = "an end behind the beginning: 'latest', 'group', a time, or offsets"
        raise ValueError(msg)
    return checked_start(value)


def named_offsets(value: Any) -> dict[str, dict[str, int]]:
    """The offsets that a checked beginning or end names, by topic and partition; none where it is a word or a time."""
    return value.get("offsets", {}) if isinstance(value, Mapping) else {}


def _of_partitions(at: Any) -> dict[str, int]:
    if not isinstance(at, Mapping):
        raise ValueError(_EXPECTED)  # noqa: TRY004
    checked = {}
    for partition, offset in at.items():
        is_number = str(partition).isdigit() and isinstance(offset, int) and not isinstance(offset, bool)
        if not is_number or not 0 <= offset <= _LARGEST_OFFSET:
            msg = f"offsets are whole numbers by partition, such as {{'0': 17}}, not {partition!r}: {offset!r}"
            raise ValueError(msg)
        checked[str(int(partition))] = offset
    return checked


def _milliseconds(value: str | dt.datetime) -> int:
    try:
        instant = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if instant.tzinfo is None:
        msg = f"a time with its zone, such as '{instant.isoformat()}Z'"
        raise ValueError(msg)
    return round(instant.timestamp() * 1000)
