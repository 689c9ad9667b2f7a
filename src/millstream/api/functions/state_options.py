"""Options of every state, checked where they are written."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypedDict

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.state import TtlClock, TtlUpdate
from millstream.model.time import DurationLike

Migrate = Callable[[Any, int], Any]


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


_CHOICES: dict[str, tuple[Any, ...]] = {
    "ttl_clock": typing.get_args(TtlClock),
    "ttl_update": typing.get_args(TtlUpdate),
}


def check_options(options: StateOptions) -> None:
    """Refuse unknown options, unknown words, and options that say something about a time to live where there is none."""
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


def checked_version(version: int) -> int:
    """The version of the type that is stored."""
    if type(version) is not int or version < 1:
        msg = "the version of a state is a whole number above zero"
        raise InvalidStep(msg, code="STATE-004", found=repr(version), hint="count versions from 1")
    return version


def checked_migrate(migrate: Migrate) -> FunctionRef:
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
