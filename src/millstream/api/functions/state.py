"""Keyed state of process functions: declared as class attributes, bound to the current key while a job runs."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar, Unpack

from millstream.api.functions.state_options import StateOptions, check_options, checked_migrate, checked_version
from millstream.errors import InvalidStep
from millstream.graph.state import StateDescriptor, StateKind, TtlClock, TtlUpdate
from millstream.model.time import positive_ms

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


class DeclaredState:
    """What every kind of state has: its declaration, and the cell of the current key while a job runs."""

    _kind: StateKind
    _cell: StateCell | None = None
    _name = "?"

    def __init__(self, type_: Any, **options: Unpack[StateOptions]) -> None:
        check_options(options)
        ttl, migrate = options.get("ttl"), options.get("migrate")
        self._type = type_
        self._key_type: Any = None
        self._ttl = None if ttl is None else positive_ms(ttl, what="ttl")
        self._clock: TtlClock = options.get("ttl_clock", "processing")
        self._update: TtlUpdate = options.get("ttl_update", "write")
        self._version = checked_version(options.get("version", 1))
        self._migrate = None if migrate is None else checked_migrate(migrate)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def describe(self) -> StateDescriptor:
        """The descriptor that goes into the plan."""
        keys = "" if self._key_type is None else f"{type_text(self._key_type)} -> "
        return StateDescriptor(
            name=self._name,
            kind=self._kind,
            type=self._type,
            key_type=self._key_type,
            ttl=self._ttl,
            ttl_clock=self._clock,
            ttl_update=self._update,
            type_text=f"{keys}{type_text(self._type)}",
            version=self._version,
            migrate=self._migrate,
        )

    def bound_to(self, cell: StateCell) -> DeclaredState:
        """This state, reading and writing a cell; called by the runtime."""
        bound: DeclaredState = object.__new__(type(self))
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


class ValueState(DeclaredState, Generic[T]):
    """One value per key.

    Example: `count = ms.ValueState(int)`, then `self.count.update((self.count.value() or 0) + 1)`.

    Args:
        type_: what is stored: plain types, collections, dataclasses, `TypedDict`, `NamedTuple`, `msgspec.Struct`.
        **options: `ttl`, `ttl_clock`, `ttl_update`, `version`, `migrate`; see `StateOptions`.
    """

    _kind: StateKind = "value"

    # A type that is no class, such as `int | None`, says nothing that could be inferred.
    @typing.overload
    def __init__(self, type_: type[T], **options: Unpack[StateOptions]) -> None: ...

    @typing.overload
    def __init__(self: ValueState[Any], type_: Any, **options: Unpack[StateOptions]) -> None: ...

    def __init__(self, type_: Any, **options: Unpack[StateOptions]) -> None:
        super().__init__(type_, **options)

    def value(self) -> T | None:
        """The stored value, or `None`."""
        held: T | None = self._current().load()
        return held

    def update(self, value: T) -> None:
        """Store a value for the current key."""
        self._current().store(value)


class ListState(DeclaredState, Generic[T]):
    """A list per key, in the order of its appends. With a `ttl` the list expires as a whole, counted from its last write."""

    _kind: StateKind = "list"

    @typing.overload
    def __init__(self, type_: type[T], **options: Unpack[StateOptions]) -> None: ...

    @typing.overload
    def __init__(self: ListState[Any], type_: Any, **options: Unpack[StateOptions]) -> None: ...

    def __init__(self, type_: Any, **options: Unpack[StateOptions]) -> None:
        super().__init__(type_, **options)

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


class MapState(DeclaredState, Generic[K, V]):
    """A map per key. With a `ttl` the map expires as a whole, counted from its last write."""

    _kind: StateKind = "map"

    @typing.overload
    def __init__(self, key_type: type[K], value_type: type[V], **options: Unpack[StateOptions]) -> None: ...

    @typing.overload
    def __init__(self: MapState[Any, Any], key_type: Any, value_type: Any, **options: Unpack[StateOptions]) -> None: ...

    def __init__(self, key_type: Any, value_type: Any, **options: Unpack[StateOptions]) -> None:
        super().__init__(value_type, **options)
        self._key_type = key_type

    @typing.overload
    def get(self, key: K) -> V | None: ...

    @typing.overload
    def get(self, key: K, default: V) -> V: ...

    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a map key."""
        held: V | None = (self._current().load() or {}).get(key, default)
        return held

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
    """A type as text for people."""
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def states_of(function: object) -> dict[str, DeclaredState]:
    """The states a process function declares, by name, base classes first."""
    states: dict[str, DeclaredState] = {}
    for owner in reversed(type(function).__mro__):
        states.update({name: value for name, value in vars(owner).items() if isinstance(value, DeclaredState)})
    return states
