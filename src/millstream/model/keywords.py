"""Keywords of public calls: a mistyped one is refused by name, with those that exist."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from millstream.errors import InvalidStep

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def refuse_unknown_keywords(given: Iterable[str], known: Iterable[str], call: str) -> None:
    """Refuse the first keyword that a call does not take; the nearest known ones come first in the fix."""
    names = list(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(f'{each}=' for each in near)}?" if near else "use a known keyword"
            msg = f"{call} takes no keyword {name!r}"
            raise InvalidStep(msg, code="RUN-025", known=names, hint=hint)


def known_keywords(call: str, also: Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function refuse unknown keywords as errors of ours; `also` names those that its `**` stands for."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        own = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        names = [name for name in (*own, *also) if name != "self"]

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse_unknown_keywords(kwargs, names, call)
            return function(*args, **kwargs)

        return called

    return decorated


def known_fields(kind: type[T]) -> type[T]:
    """Let a class refuse unknown fields as errors of ours."""
    kind.__init__ = known_keywords(f"{kind.__name__}()")(kind.__init__)  # type: ignore[method-assign]
    return kind
