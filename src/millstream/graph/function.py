"""References to user code: `module:qualname` where it can be imported, the object itself where it cannot."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorSpec
from millstream.registry import load_of_user

_MARK = "_millstream_nondeterministic"
_LIFE = ("open", "close")
_CALLED = ("__call__", "state_descriptors", *_LIFE)
"""Methods that only classes of functions define; any other class is called itself, with each row."""
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRef:
    """A user function or process function. Two references are equal when their names are."""

    name: str
    location: str = dataclasses.field(compare=False)
    is_importable: bool
    target: Any = dataclasses.field(compare=False, repr=False)

    @property
    def is_deterministic(self) -> bool:
        """Whether a replay gives the same answers, as far as its author said."""
        return not getattr(self.target, _MARK, False)

    @property
    def is_living(self) -> bool:
        """Whether its class defines `open` or `close`."""
        return any(self.defines(method) for method in _LIFE)

    def describe(self) -> str:
        """User code by name, and how another process gets it."""
        how = "imported by name" if self.is_importable else "sent with the job"
        return f"{self.name.split('@', maxsplit=1)[0]} at {self.location} ({how})"

    def defines(self, method: str) -> bool:
        """Whether its class defines a method of that name; a state may bear it too, and is none."""
        return callable(getattr(type(self.target), method, None))


def function_ref(target: Any, *, step: str | None = None) -> FunctionRef:
    """Refer to a callable, a process function, the class of one, or one named by `module:qualname`."""
    if isinstance(target, str):
        return _imported(target, step)
    described = target if hasattr(target, "__qualname__") else type(target)
    module, qualname = getattr(described, "__module__", "?"), getattr(described, "__qualname__", repr(target))
    location = code_location(described)
    name = f"{module}:{qualname}"
    is_importable = _finds(name, target)
    return FunctionRef(
        name=name if is_importable else f"{name}@{location}",
        location=location,
        is_importable=is_importable,
        target=_made(target, step) if _is_function_class(target) else target,
    )


def functions_in(operation: Any) -> list[FunctionRef]:
    """The user functions of an operation, also those inside its pattern, trigger, evictor or connector."""
    given = [getattr(operation, field.name) for field in dataclasses.fields(operation)]
    parts = [part for each in given for part in _parts(each)]
    return [part for part in parts if isinstance(part, FunctionRef)]


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, ConnectorSpec):
        return value.options.values()
    return getattr(value, "functions", (value,))


def with_functions(operation: T, made: Callable[[FunctionRef], FunctionRef]) -> T:
    """The operation with other functions; the same object when they are the same."""
    given = {field.name: getattr(operation, field.name) for field in dataclasses.fields(operation) if field.init}  # type: ignore[arg-type]
    mine = {
        name: value for name, value in given.items() if isinstance(value, FunctionRef) or hasattr(value, "functions")
    }
    changed = {name: new for name, old in mine.items() if (new := _with_functions(old, made)) is not old}
    return dataclasses.replace(operation, **changed) if changed else operation  # type: ignore[type-var]


def _with_functions(value: Any, made: Callable[[FunctionRef], FunctionRef]) -> Any:
    if isinstance(value, FunctionRef):
        return made(value)
    if isinstance(value, tuple):
        parts = tuple(_with_functions(part, made) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    changed = {name: new for name, old in given.items() if (new := _with_functions(old, made)) is not old}
    return dataclasses.replace(value, **changed) if changed else value


def _is_function_class(target: Any) -> bool:
    return isinstance(target, type) and any(
        callable(vars(base).get(method)) for base in target.__mro__ for method in _CALLED
    )


def _made(kind: type[Any], step: str | None) -> Any:
    try:
        return kind()
    except TypeError as problem:
        msg = f"{kind.__qualname__} cannot be made without arguments"
        raise InvalidStep(
            msg, code="STEP-260", step=step, found=str(problem), hint=f"pass an instance: {kind.__qualname__}(...)"
        ) from problem


def mark_nondeterministic(target: Any) -> None:
    """Say of a function or class that it may answer differently when it is called again."""
    try:
        setattr(target, _MARK, True)
    except (AttributeError, TypeError):
        msg = "this callable cannot be marked"
        raise InvalidStep(
            msg, code="STEP-076", found=repr(target), known="functions and classes", hint="wrap it in a function"
        ) from None


def code_location(target: Any) -> str:
    """`file.py:12` of the user's code, for messages."""
    code = getattr(inspect.unwrap(target) if callable(target) else target, "__code__", None)
    if code is not None:
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    try:
        lines, start = inspect.getsourcelines(target)
        return f"{Path(inspect.getsourcefile(target) or '?').name}:{start if lines else 0}"
    except (OSError, TypeError):
        return getattr(target, "__module__", "unknown")


def _finds(name: str, target: Any) -> bool:
    """Whether another process that imports `name` gets the same behaviour."""
    module, qualname = name.split(":", 1)
    if module == "__main__" or "<" in qualname or module not in sys.modules:
        return False
    named: Any = sys.modules[module]
    for part in qualname.split("."):
        named = getattr(named, part, None)
    if named is target:
        return True
    return named is type(target) and not getattr(target, "__dict__", None)


def _imported(name: str, step: str | None) -> FunctionRef:
    try:
        target: Any = load_of_user(name)
    except (ImportError, AttributeError, ValueError) as problem:
        msg = "function cannot be imported"
        raise InvalidStep(
            msg,
            code="STEP-010",
            step=step,
            found=f"{name!r} ({problem})",
            hint="name it as 'module:function', importable here",
        ) from None
    if isinstance(target, type):
        target = _made(target, step)
    location = code_location(target if callable(target) else type(target))
    return FunctionRef(name=name, location=location, is_importable=True, target=target)
