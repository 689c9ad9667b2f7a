"""Keyed state of process functions: declared as class attributes, bound to the current key while a job runs."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from millstream.errors import InvalidStep
from millstream.graph.state import StateDescriptor, StateKind
from millstream.model.time import DurationLike, positive_ms

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class StateCell(Protocol):
    """The current key's slot for one state; the runtime provides it. Expired content reads as absent.

    `load` hands out the stored object itself: whoever changes it in place stores it again.
    """

    def load(self) -> Any:
        """The stored content or `None`."""
        ...

    def store(self, content: Any) -> None:
        """Replace the content; `None` removes it."""
        ...


class _State:
    _kind: StateKind
    _cell: StateCell | None = None
    _name = "?"

    def __init__(self, type_: Any, *, ttl: DurationLike | None = None) -> None:
        self._type = type_
        self._ttl = None if ttl is None else positive_ms(ttl, what="ttl")

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def describe(self) -> StateDescriptor:
        """The descriptor that goes into the plan."""
        return StateDescriptor(
            name=self._name, kind=self._kind, type=self._type, ttl=self._ttl, type_text=type_text(self._type)
        )

    def bound_to(self, cell: StateCell) -> _State:
        """This state, reading and writing a cell; called by the runtime."""
        bound: _State = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._cell = cell
        return bound

    def _current(self) -> StateCell:
        if self._cell is None:
            msg = f"state {self._name!r} is used outside process or on_timer"
            raise InvalidStep(
                msg, code="STATE-001", hint="state belongs to the key of a row; use it inside those methods"
            )
        return self._cell

    def clear(self) -> None:
        """Remove what is stored for the current key."""
        self._current().store(None)


class ValueState(_State, Generic[T]):
    """One value per key.

    Example: `count = ms.ValueState(int)`, then `self.count.update((self.count.value() or 0) + 1)`.
    """

    _kind: StateKind = "value"

    def value(self) -> T | None:
        """The stored value, or `None`."""
        found: T | None = self._current().load()
        return found

    def update(self, value: T) -> None:
        """Store a value for the current key."""
        self._current().store(value)


class ListState(_State, Generic[T]):
    """A list per key, in the order of its appends. With a `ttl` the list expires as a whole, counted from its last write."""

    _kind: StateKind = "list"

    def get(self) -> list[T]:
        """A copy of the list."""
        return list(self._current().load() or ())

    def add(self, item: T) -> None:
        """Append an item."""
        cell = self._current()
        items = cell.load()
        if items is None:
            items = []
        items.append(item)
        cell.store(items)

    def update(self, items: list[T]) -> None:
        """Replace the list."""
        self._current().store(list(items) or None)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(_State, Generic[K, V]):
    """A map per key. With a `ttl` the map expires as a whole, counted from its last write."""

    _kind: StateKind = "map"

    def __init__(self, key_type: Any, value_type: Any, *, ttl: DurationLike | None = None) -> None:
        super().__init__(value_type, ttl=ttl)
        self._key_type = key_type

    def describe(self) -> StateDescriptor:
        """The descriptor that goes into the plan."""
        text = f"{type_text(self._key_type)} -> {type_text(self._type)}"
        return StateDescriptor(
            name=self._name, kind="map", type=self._type, key_type=self._key_type, ttl=self._ttl, type_text=text
        )

    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a map key."""
        found: V | None = (self._current().load() or {}).get(key, default)
        return found

    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""
        cell = self._current()
        content = cell.load()
        if content is None:
            content = {}
        content[key] = value
        cell.store(content)

    def remove(self, key: K) -> None:
        """Remove a map key, if it is there."""
        cell = self._current()
        content = cell.load() or {}
        content.pop(key, None)
        cell.store(content or None)

    def items(self) -> list[tuple[K, V]]:
        """All pairs, in the order they were put."""
        return list((self._current().load() or {}).items())

    def __contains__(self, key: object) -> bool:
        return key in (self._current().load() or {})


def type_text(kind: Any) -> str:
    """A type as stable text, for fingerprints."""
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def states_of(function: object) -> dict[str, _State]:
    """The states a process function declares, by name, base classes first."""
    found: dict[str, _State] = {}
    for owner in reversed(type(function).__mro__):
        found.update({name: value for name, value in vars(owner).items() if isinstance(value, _State)})
    return found
