"""Paths into answers: `data.items`, `links.next.0.href`, or `/@odata.nextLink` where a name holds a dot. They are no code.

A part that is a number is an index into a list, `-1` its last; into an object it is a name like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

Steps = tuple[str, ...]
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class _Missing:
    """Nothing lies at a path; null is something."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()


def steps_of(path: str) -> Steps:
    """The parts of a path; an empty one leads to the whole.

    Raises:
        ValueError: it is no path.
    """
    if path.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    parts = tuple(path.split(".")) if path else ()
    if "" in parts or any(mark in path for mark in "[]*?$"):
        msg = "a path such as 'data.items' or '/data/items', without wildcards"
        raise ValueError(msg)
    return parts


def optional_steps(path: str | None) -> Steps | None:
    """The parts of a path, or none."""
    return None if path is None else steps_of(path)


def found_at(value: Any, steps: Steps) -> Any:
    """What lies at a path in a JSON value, or `MISSING`."""
    for step in steps:
        value = _inside(value, step)
    return value


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, MISSING)
    if isinstance(value, list):
        index = _index(step)
        return value[index] if index is not None and -len(value) <= index < len(value) else MISSING
    return MISSING


def _index(step: str) -> int | None:
    return int(step) if step.removeprefix("-").isdecimal() else None


def with_value(value: Any, steps: Steps, placed: Any) -> Any:
    """A JSON value with another one placed at a path; objects that are missing on the way are made."""
    if not steps:
        return placed
    if isinstance(value, list) and (index := _index(steps[0])) is not None and -len(value) <= index < len(value):
        return [*value[:index], with_value(value[index], steps[1:], placed), *value[index:][1:]]
    inside = value if isinstance(value, Mapping) else {}
    return {**inside, steps[0]: with_value(inside.get(steps[0]), steps[1:], placed)}


def raw_at(body: bytes, steps: Steps) -> msgspec.Raw | None:
    """The text of what lies at a path of a JSON text, undecoded, so that no number loses a digit; `None`: nothing does.

    Raises:
        msgspec.DecodeError: the text is no JSON.
    """
    raw = msgspec.Raw(body.strip())
    for step in steps:
        first = raw_sign(raw)
        index = _index(step)
        if first == b"{":
            inside = _RAW_FIELDS.decode(raw).get(step)
        elif first == b"[" and index is not None:
            items = _RAW_ITEMS.decode(raw)
            inside = items[index] if -len(items) <= index < len(items) else None
        else:
            msgspec.json.decode(raw)
            inside = None
        if inside is None:
            return None
        raw = inside
    return raw


def raw_records(body: bytes, steps: Steps) -> list[bytes]:
    """The texts of the records at a path: of a list its items, of anything else but null the one that it is."""
    raw = raw_at(body, steps)
    if raw is None or raw_sign(raw) == b"n":
        return []
    if raw_sign(raw) != b"[":
        return [bytes(raw)]
    return [bytes(item) for item in _RAW_ITEMS.decode(raw)]


def raw_sign(raw: msgspec.Raw) -> bytes:
    """The sign that a JSON text begins with: it tells an object from a list, a text and a number."""
    return bytes(memoryview(raw)[:1])
