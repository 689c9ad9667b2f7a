"""Keyed state that combines what is added to it: into a value of the same type, or into an accumulator."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack

from millstream.api.functions.state import DeclaredState
from millstream.api.functions.state_options import StateOptions
from millstream.errors import InvalidStep, StepFailed
from millstream.graph.state import StateKind

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class ReducingState(DeclaredState, Generic[T]):
    """One value per key, made of all values that were added.

    Example: `highest = ms.ReducingState(int, max)`, then `self.highest.add(row["price"])`.

    Args:
        type_: what is stored and added.
        function: `function(so_far, value)` gives the new value; the first value stands for itself.
        **options: as for `ValueState`.
    """

    _kind: StateKind = "reducing"

    @typing.overload
    def __init__(self, type_: type[T], function: Callable[[T, T], T], **options: Unpack[StateOptions]) -> None: ...

    @typing.overload
    def __init__(
        self: ReducingState[Any], type_: Any, function: Callable[[Any, Any], Any], **options: Unpack[StateOptions]
    ) -> None: ...

    def __init__(self, type_: Any, function: Callable[[Any, Any], Any], **options: Unpack[StateOptions]) -> None:
        super().__init__(type_, **options)
        self._function = _checked_function(function, "function", 2)

    def get(self) -> T | None:
        """The value so far, or `None`."""
        held: T | None = self._current().load()
        return held

    def add(self, value: T) -> None:
        """Combine a value with what is stored."""
        cell = self._current()
        held = cell.load()
        cell.store(_made(value if held is None else self._function(held, value), self._name, "function"))


class AggregatingState(DeclaredState, Generic[V, A, R]):
    """An accumulator per key: what is added and what is read may be of other types than what is stored.

    Example: `mean = ms.AggregatingState(Mean, create=Mean, add=Mean.plus, result=Mean.value)`.

    Args:
        accumulator_type: what is stored.
        create: gives an empty accumulator.
        add: `add(accumulator, value)` returns the new accumulator, which may be the old one, changed.
        result: what `get` makes of the accumulator; left out, it is the accumulator.
        **options: as for `ValueState`.
    """

    _kind: StateKind = "aggregating"

    def __init__(
        self,
        accumulator_type: Any,
        *,
        create: Callable[[], A],
        add: Callable[[A, V], A],
        result: Callable[[A], R] | None = None,
        **options: Unpack[StateOptions],
    ) -> None:
        super().__init__(accumulator_type, **options)
        self._create = _checked_function(create, "create", 0)
        self._add = _checked_function(add, "add", 2)
        self._result = None if result is None else _checked_function(result, "result", 1)

    def get(self) -> R | None:
        """The result for the current key, or `None` where nothing was added."""
        held = self._current().load()
        result: R | None = held if held is None or self._result is None else self._result(held)
        return result

    def add(self, value: V) -> None:
        """Add a value to the accumulator."""
        cell = self._current()
        held = cell.load()
        cell.store(_made(self._add(self._create() if held is None else held, value), self._name, "add"))


def _checked_function(function: Any, what: str, arguments: int) -> Callable[..., Any]:
    """A wrong number of arguments is refused where it is written; a function that does not say its arguments is taken."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except ValueError:
        pass
    except TypeError as problem:
        msg = f"{what} of a state is not a function of {arguments} arguments"
        raise InvalidStep(msg, code="STATE-008", found=f"{function!r}: {problem}", hint=f"correct {what}=") from None
    return typing.cast("Callable[..., Any]", function)


def _made(content: Any, name: str, what: str) -> Any:
    """What a function of the user made; nothing would remove the state."""
    if content is None:
        msg = f"{what} of state {name!r} returned nothing"
        raise StepFailed(msg, code="STATE-009", hint="return the new content, also where it was changed in place")
    return content
