"""Expression texts inside operations: found by how fields are annotated, and rewritten where they stand."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

EXPRESSION = object()
ExpressionText = Annotated[str, EXPRESSION]
"""SQL over the columns of a step. A field of an operation that holds such text is annotated with it, also inside others."""
T = TypeVar("T")
_PLAIN = (str, int, float, bool, bytes, type(None))


def with_texts(value: T, rewritten: Callable[[str], str]) -> T:
    """An operation with its expression texts rewritten; the same object where none of them changes."""
    made: T = _with_texts(value, type(value), rewritten)
    return made


def texts_of(value: object) -> list[str]:
    """The expression texts of an operation."""
    found: list[str] = []

    def noted(text: str) -> str:
        found.append(text)
        return text

    with_texts(value, noted)
    return found


def _with_texts(value: Any, hint: Any, rewritten: Callable[[str], str]) -> Any:
    if value is None:
        return None
    if EXPRESSION in getattr(hint, "__metadata__", ()):
        return rewritten(value) if isinstance(value, str) else value
    if isinstance(value, tuple):
        parts = tuple(_with_texts(*pair, rewritten) for pair in zip(value, _of_items(hint, len(value)), strict=True))
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        arms = [arm for arm in typing.get_args(hint) if EXPRESSION in getattr(arm, "__metadata__", ())]
        return _with_texts(value, arms[0] if arms else type(value), rewritten)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for name, field_hint in _fields_with_texts(type(value)):
        old = getattr(value, name)
        if (new := _with_texts(old, field_hint, rewritten)) is not old:
            changed[name] = new
    return dataclasses.replace(value, **changed) if changed else value


def _of_items(hint: Any, count: int) -> Iterator[Any]:
    """The annotations of a tuple's items."""
    arms = typing.get_args(hint) if typing.get_origin(hint) is tuple else ()
    if len(arms) == 2 and arms[1] is Ellipsis:
        arms = (arms[0],) * count
    yield from arms if len(arms) == count else (object,) * count


@cache
def _fields_with_texts(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """The fields in which a text may stand, with their annotations. Steps are built often, and most fields hold none."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    return tuple((field.name, hints[field.name]) for field in fields if not _is_plain(hints[field.name]))


def _is_plain(hint: Any) -> bool:
    """Whether values of this annotation are plain ones, or made of them alone."""
    if hint in _PLAIN or hint is Ellipsis or typing.get_origin(hint) is Literal:
        return True
    is_made = typing.get_origin(hint) in {tuple, typing.Union, types.UnionType}
    return is_made and all(_is_plain(arm) for arm in typing.get_args(hint))
