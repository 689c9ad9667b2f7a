"""The text of a job file as plain values, with the lines of its steps. YAML is read by `safe_load`, so it holds only data."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.errors import InvalidPlan, MillstreamError

_DEEPEST = 64
_LARGEST = 1_000_000
"""Values in a file with its aliases written out; a small file can stand for an endless one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A job file: its name, its content, and the line of each step where known."""

    name: str
    content: dict[str, Any]
    lines: tuple[int, ...] = ()
    is_file: bool = False

    @contextlib.contextmanager
    def located(self, index: int | None, label: str | None) -> Iterator[None]:
        """Add the place in this file to errors: of a step by its index, or of the job itself."""
        try:
            yield
        except MillstreamError as error:
            place = [self.name]
            if index is not None:
                place.append(f"step {index + 1}" + (f" ({label})" if label else ""))
                place += [f"line {self.lines[index]}"] if index < len(self.lines) else []
            fields: dict[str, Any] = error.fields()
            message = f"{fields.pop('message')} (in {', '.join(place)})"
            raise type(error)(message, **fields).with_traceback(error.__traceback__) from error.__cause__


def read_document(source: str | Path) -> Document:
    """Read a file, or text: a `str` with a line break, or one that starts with `{`."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return parsed_document(source, "text")
    try:
        path = Path(source)
        text = path.read_text(encoding="utf-8")
    except (OSError, TypeError, ValueError) as problem:
        msg = "job file cannot be read"
        raise InvalidPlan(
            msg, code="DECL-001", found=f"{source}: {problem}", hint="name an existing YAML or JSON file"
        ) from None
    return dataclasses.replace(parsed_document(text, path.name), is_file=True)


def parsed_document(text: str, name: str) -> Document:
    """Read the text of a document: JSON where it starts with `{`, YAML otherwise."""
    if text.lstrip().startswith("{"):
        return _document(_from_json(text, name), name, ())
    content, lines = _from_yaml(text, name)
    return _document(content, name, lines)


def _document(content: Any, name: str, lines: tuple[int, ...]) -> Document:
    plain = _plain(content, [_LARGEST], 0, name)
    if not isinstance(plain, dict):
        msg = f"{name} does not hold a job"
        raise InvalidPlan(
            msg, code="DECL-003", found=type(plain).__name__, known="a mapping", hint="start with job: name"
        )
    return Document(name=name, content=plain, lines=lines)


def _from_json(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, name))
    except json.JSONDecodeError as problem:
        raise _unreadable(name, str(problem)) from None


def _once(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _doubled(next(key for key in keys if keys.count(key) > 1), name)
    return mapping


def _from_yaml(text: str, name: str) -> tuple[Any, tuple[int, ...]]:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _check_keys(root, name, set())
        return yaml.safe_load(text), _step_lines(root)
    except yaml.YAMLError as problem:
        raise _unreadable(name, " ".join(str(problem).split())) from None


def _check_keys(node: Any, name: str, seen: set[int]) -> None:
    """A key written twice would silently win over the first; YAML says it is an error, PyYAML does not."""
    if node is None or id(node) in seen or not isinstance(node.value, list):
        return
    seen.add(id(node))
    keys: set[str] = set()
    for part in node.value:
        if not isinstance(part, tuple):
            _check_keys(part, name, seen)
            continue
        key, content = part
        if isinstance(key.value, str) and key.value in keys:
            raise _doubled(key.value, f"{name}, line {key.start_mark.line + 1}")
        keys |= {key.value} if isinstance(key.value, str) else set()
        _check_keys(content, name, seen)


def _step_lines(root: Any) -> tuple[int, ...]:
    pairs = [part for part in getattr(root, "value", ()) if isinstance(part, tuple)]
    steps = next((content for key, content in pairs if key.value == "steps"), None)
    nodes = steps.value if steps is not None and isinstance(steps.value, list) else []
    return tuple(node.start_mark.line + 1 for node in nodes if not isinstance(node, tuple))


def _plain(value: Any, left: list[int], depth: int, name: str) -> Any:
    """JSON values only: instants become ISO text, everything else that JSON does not know is refused."""
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise _unreadable(name, f"more than {_LARGEST} values, or nested deeper than {_DEEPEST}")
    match value:
        case dict():
            _check_names(value, name)
            return {key: _plain(content, left, depth + 1, name) for key, content in value.items()}
        case list():
            return [_plain(content, left, depth + 1, name) for content in value]
        case dt.date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise _unreadable(name, f"{type(value).__name__} {value!r}")


def _check_names(value: dict[Any, Any], name: str) -> None:
    for key in value:
        if not isinstance(key, str):
            raise _unreadable(
                name, f"key {key!r} is not text; YAML reads on, off, yes, no and numbers otherwise: quote it"
            )


def _doubled(key: str, where: str) -> InvalidPlan:
    msg = f"key {key!r} is written twice in one mapping (in {where})"
    return InvalidPlan(msg, code="DECL-002", hint="remove one of them")


def _unreadable(name: str, reason: str) -> InvalidPlan:
    msg = f"{name} is not a YAML or JSON document of plain values"
    return InvalidPlan(msg, code="DECL-002", found=reason, hint="correct the file")
