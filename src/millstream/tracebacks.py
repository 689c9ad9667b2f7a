"""Errors without the frames of this package: the user's own lines, the public call, the message.

`public` marks what a user calls. Our errors leave it with the call itself and the frames of code that is not ours, such
as the function of a failing step; `MILLSTREAM_DEBUG=1` and `--debug` leave every frame in place.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any, Literal, TypeVar, cast

from millstream.errors import InvalidCall, MillstreamError

VARIABLE = "MILLSTREAM_DEBUG"
_OURS = f"{Path(__file__).parent}{os.sep}"
_STANDARD = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib")})
# What this package calls on the user's behalf; other installed packages may well hold the user's own code.
_CALLED = frozenset({"click", "cloudpickle", "duckdb", "msgspec", "numpy", "obstore", "pandas", "psycopg"}) | {
    *("py4j", "pyarrow", "pyspark", "rich", "sqlglot", "typer", "yaml")
}
_DUNDERS = ("__init__", "__call__", "__getitem__", "__enter__", "__exit__")

Owner = Literal["ours", "theirs", "library"]
T = TypeVar("T")


def is_debugging() -> bool:
    """Whether errors keep all their frames."""
    return os.environ.get(VARIABLE, "0") not in {"", "0"}


@contextlib.contextmanager
def full_tracebacks(*, wanted: bool = True) -> Iterator[None]:
    """Errors keep all their frames meanwhile: in every thread, and in the processes that are started."""
    before = os.environ.get(VARIABLE)
    if wanted:
        os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        if wanted and before is None:
            del os.environ[VARIABLE]
        elif wanted and before is not None:
            os.environ[VARIABLE] = before


@functools.lru_cache(maxsize=1024)
def owner_of(filename: str) -> Owner:
    """Whose code a file holds; a library's frames belong to whoever called them."""
    if filename.startswith(_OURS):
        return "ours"
    if filename.startswith(("<frozen ", "<string>", "<pattern of ")):
        return "library"
    _, installed, inside = filename.rpartition(f"site-packages{os.sep}")
    if installed:
        return "library" if inside.split(os.sep, 1)[0] in _CALLED else "theirs"
    return "library" if filename.startswith(_STANDARD) else "theirs"


def public(surface: T) -> T:
    """Let a function, or the public methods of a class, raise our errors without the frames inside."""
    if not inspect.isclass(surface):
        return cast("T", _shortened(cast("Callable[..., Any]", surface)))
    for name, member in list(vars(surface).items()):
        if name in _DUNDERS or not name.startswith("_"):
            setattr(surface, name, _member(member))
    return surface


def publish(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make the functions among these names public, and those of the modules among them."""
    for name in names:
        member = namespace.get(name)
        if isinstance(member, ModuleType):
            own = [each for each, value in vars(member).items() if _is_own(value, member.__name__)]
            publish(vars(member), [each for each in own if not each.startswith("_")])
        elif isinstance(member, FunctionType):
            shortened = public(member)
            # Where it can be found under its name, so that a function that mentions it is pickled by that name.
            shortened.__module__, shortened.__qualname__ = namespace["__name__"], name
            namespace[name] = shortened


def _is_own(value: object, module: str) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module


def _member(member: Any) -> Any:
    match member:
        case FunctionType():
            return _shortened(member)
        case classmethod() | staticmethod():
            return type(member)(_shortened(member.__func__))
        case property(fget=getter) if getter is not None:
            return property(_shortened(getter), member.fset, member.fdel, member.__doc__)
        case _:
            return member


def _shortened(function: Callable[..., Any]) -> Callable[..., Any]:
    # A bare `raise` does not add the frame it stands in again: what `shorten` leaves is what is seen.
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:
            try:
                return (yield from function(*args, **kwargs))
            except MillstreamError as error:
                shorten(error)
                raise

        return generate

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return _called(function, args, kwargs)
        except MillstreamError as error:
            shorten(error)
            raise

    return call


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except TypeError as problem:
        # No frame below this one: the function did not begin, so that the arguments are what does not fit.
        if problem.__traceback__ is not None and problem.__traceback__.tb_next is None:
            raise _misfit(function, kwargs, problem) from None
        raise


def _misfit(function: Callable[..., Any], kwargs: dict[str, Any], problem: TypeError) -> InvalidCall:
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name not in {"self", "cls"}]
    unknown = [name for name in kwargs if name not in known]
    close = [near for name in unknown for near in difflib.get_close_matches(name, known, 1)]
    hint = f"did you mean {close[0]}=?" if close else "correct the call"
    return InvalidCall(str(problem), known=", ".join(known) or "no arguments", hint=hint)


def shorten(error: BaseException, caller: Owner = "theirs") -> None:
    """Take the inner frames of this package out of an error and of what is shown with it."""
    if is_debugging():
        return
    error.__traceback__ = _without_inner(error.__traceback__, caller)
    for reason in _reasons(error):
        reason.__traceback__ = _without_inner(reason.__traceback__, "ours")


def account_of(error: BaseException) -> str | None:
    """How the user's own code failed behind an error, as text; nothing if no frame of theirs is involved."""
    shorten(error, "ours")
    for reason in (*_reasons(error), error):
        if any(owner_of(frame.f_code.co_filename) == "theirs" for frame, _ in traceback.walk_tb(reason.__traceback__)):
            return "".join(traceback.format_exception(reason)).rstrip()
    return None


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """What is shown above an error: its causes, and errors during whose handling it was raised."""
    seen = {id(error)}
    reason = _reason(error)
    while reason is not None and id(reason) not in seen:
        seen.add(id(reason))
        yield reason
        reason = _reason(reason)


def _reason(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _without_inner(trace: TracebackType | None, caller: Owner) -> TracebackType | None:
    """Frames of others, and of ours those that others called."""
    kept: list[TracebackType] = []
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename != __file__:
            owner = owner_of(filename)
            if owner == "library":
                owner = caller
            if owner == "theirs" or caller == "theirs":
                kept.append(trace)
            caller = owner
        trace = trace.tb_next
    shown: TracebackType | None = None
    for each in reversed(kept):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shown
