"""What the sessions of all databases promise, and how their owner hears of what went wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An error of a driver, and what a session knows about it."""

    cause: Exception
    is_passing: bool = False
    """Whether waiting could have helped: it was waited for, in vain."""
    is_connecting: bool = False
    """Whether no connection could be opened for a single statement."""


Fail = Callable[[Trouble], NoReturn]
"""Raises the owner's error, with its code and hint; only the owner knows whether the driver's text may be shown."""


class Session(Protocol):
    """One connection that opens itself; of single statements and of whole transactions."""

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement with `?` for each value; asked again when the connection breaks."""
        ...

    def change(self, statement: str, *values: object) -> int:
        """Rows changed, durably; raises `Unanswered` when the connection breaks before the reply."""
        ...

    def run(self, work: Callable[[Any], T]) -> T:
        """Do work with a cursor in one transaction, again when the database was away or locked; so it must be safe to repeat."""
        ...

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        ...
