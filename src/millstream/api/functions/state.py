"""Keyed state of process functions: declared as class attributes, bound to the current key while a job runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

from millstream.errors import InvalidStep, StepFailed
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.state import StateDescriptor, StateKind, TtlClock, TtlUpdate
from millstream.model.time import DurationLike, positive_ms

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")
Migrate = Callable[[Any, int], Any]


class StateCell(Protocol):
    """The current key's slot for one state; the runtime provides it. Expired content reads as absent.

    `load` ledger out the stored object itself: whoever changes it in place stores it again.
    """

    def load(self) -> Any:
        """The stored content or `None`."""
        ...

    def store(self, content: Any) -> None:
        """Replace the content; `None` removes it."""
        ...


class StateOptions(TypedDict, total=False):
    """Options of every state."""

    ttl: DurationLike | None
    """Forget content that long after it was written."""
    ttl_clock: TtlClock
    """Which time counts: `processing` (the clock of the epoch) or `event` (event time of rows and timers, and the watermark)."""
    ttl_update: TtlUpdate
    """`write`, or `read` where reading content lets its time begin anew as well."""
    version: int
    """Raise it when the type changes so that stored content no longer fits."""
    migrate: Migrate | None
    """`migrate(content, version)` gets content of an older version as plain dicts, lists and values, and returns content of
    this one. Called once per key when state is restored."""


class _State:
    _kind: StateKind
    _cell: StateCell | None = None
    _name = "?"

    def __init__(self, type_: Any, **options: Unpack[StateOptions]) -> None:
        _check_options(options)
        ttl, migrate = options.get("ttl"), options.get("migrate")
        self._type = type_
        self._key_type: Any = None
        self._ttl = None if ttl is None else positive_ms(ttl, what="ttl")
        self._clock: TtlClock = options.get("ttl_clock", "processing")
        self._update: TtlUpdate = options.get("ttl_update", "write")
        self._version = _checked_version(options.get("version", 1))
        self._migrate = None if migrate is None else _checked_migrate(migrate)

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


_CHOICES: dict[str, tuple[Any, ...]] = {
    "ttl_clock": typing.get_args(TtlClock),
    "ttl_update": typing.get_args(TtlUpdate),
}


def _check_options(options: StateOptions) -> None:
    given: dict[str, Any] = {**options}
    for name in given:
        if name not in StateOptions.__annotations__:
            msg = f"a state has no option {name!r}"
            raise InvalidStep(msg, code="STATE-007", known=list(StateOptions.__annotations__), hint="remove it")
    for name, known in _CHOICES.items():
        if name in given and given[name] not in known:
            msg = f"unknown {name}"
            raise InvalidStep(msg, code="STATE-007", found=repr(given[name]), known=known, hint=f"correct {name}=")
        if name in given and given.get("ttl") is None:
            msg = f"{name} without ttl"
            raise InvalidStep(msg, code="STATE-007", hint="give ttl= as well; content without it never expires")


def _checked_version(version: int) -> int:
    if type(version) is not int or version < 1:
        msg = "the version of a state is a whole number above zero"
        raise InvalidStep(msg, code="STATE-004", found=repr(version), hint="count versions from 1")
    return version


def _checked_migrate(migrate: Migrate) -> FunctionRef:
    """A migration runs when a job is restored, far from where it was written, so it must not depend on its surroundings."""
    name = getattr(migrate, "__qualname__", "<?>")
    try:
        is_callable = bool(inspect.signature(migrate).bind(None, 1))
    except (TypeError, ValueError):
        is_callable = False
    if "<" in name or not is_callable:
        msg = "migrate is not a function migrate(content, version) at the top level of a module"
        raise InvalidStep(msg, code="STATE-005", found=repr(migrate), hint="define it with def, beside the class")
    return function_ref(migrate)


class ValueState(_State, Generic[T]):
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
        found: T | None = self._current().load()
        return found

    def update(self, value: T) -> None:
        """Store a value for the current key."""
        self._current().store(value)


class ListState(_State, Generic[T]):
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


class MapState(_State, Generic[K, V]):
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


class ReducingState(_State, Generic[T]):
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
        found: T | None = self._current().load()
        return found

    def add(self, value: T) -> None:
        """Combine a value with what is stored."""
        cell = self._current()
        held = cell.load()
        cell.store(_made(value if held is None else self._function(held, value), self._name, "function"))


class AggregatingState(_State, Generic[V, A, R]):
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
        found: R | None = held if held is None or self._result is None else self._result(held)
        return found

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


def type_text(kind: Any) -> str:
    """A type as text for people."""
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def states_of(function: object) -> dict[str, _State]:
    """The states a process function declares, by name, base classes first."""
    found: dict[str, _State] = {}
    for owner in reversed(type(function).__mro__):
        found.update({name: value for name, value in vars(owner).items() if isinstance(value, _State)})
    return found
