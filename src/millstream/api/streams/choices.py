"""Options that are one of a few words."""

from __future__ import annotations

from typing import Any

from millstream.errors import InvalidStep


def checked_choice(chosen: Any, known: tuple[Any, ...], what: str) -> Any:
    """One of a few words."""
    if chosen not in known:
        msg = f"unknown {what}"
        raise InvalidStep(msg, code="STEP-070", found=repr(chosen), known=known, hint=f"correct {what}=")
    return chosen


def checked_how(how: Any, known: tuple[Any, ...]) -> Any:
    """The kind of a join."""
    if how not in known:
        msg = "unknown kind of join"
        raise InvalidStep(msg, code="STEP-082", found=repr(how), known=known, hint="correct how=")
    return how
