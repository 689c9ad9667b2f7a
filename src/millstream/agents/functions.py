"""References to functions of actions: module and name where they can be imported, the function itself where they cannot."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from millstream.registry import load_of_user

_TAKES = 2


class PythonFunction:
    """A function by its module and qualified name."""

    __slots__ = ("_function", "module", "qualname")

    def __init__(self, module: str, qualname: str, function: Callable[..., Any] | None = None) -> None:
        self.module, self.qualname, self._function = module, qualname, function

    @classmethod
    def from_callable(cls, func: Callable[..., Any]) -> PythonFunction:
        """Refer to a function."""
        return cls(func.__module__, func.__qualname__, func)

    def as_callable(self) -> Callable[..., Any]:
        """The function, imported where this reference has come from another process."""
        if self._function is None:
            self._function = load_of_user(f"{self.module}:{self.qualname}")
        return self._function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonFunction) and (self.module, self.qualname) == (other.module, other.qualname)

    def __hash__(self) -> int:
        return hash((self.module, self.qualname))

    def __repr__(self) -> str:
        return f"PythonFunction({self.module}:{self.qualname})"


def plain_function(declared: Any) -> Callable[..., Any]:
    """The function that a class holds, whether as a static method or as it is."""
    function = declared.__func__ if isinstance(declared, staticmethod) else declared
    if not inspect.isfunction(function):
        msg = f"an action is a function; found {declared!r}"
        raise TypeError(msg)
    return function


def check_action(name: str, function: Callable[..., Any]) -> None:
    """An action takes an event and a context, by place.

    Raises:
        TypeError: it takes something else, or it is a generator.
    """
    known = "def or async def (event, ctx)"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"action {name!r} is a generator; an action is {known}"
        raise TypeError(msg)
    given = list(inspect.signature(function).parameters.values())
    by_place = [each for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(by_place) != _TAKES or len(given) != _TAKES:
        msg = f"action {name!r} takes {inspect.signature(function)}; an action is {known}, without self"
        raise TypeError(msg)
