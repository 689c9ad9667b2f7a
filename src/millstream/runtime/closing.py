"""What a run has opened, and how all of it is closed, whatever fails on the way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable


class OpenedParts:
    """Parts of a run in the order they were opened; closing goes backwards and leaves none out.

    The first error counts. What else went wrong is attached to it as notes.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._problems: list[tuple[str, Exception]] = []

    def add(self, name: str, close: Callable[[], None]) -> None:
        """Remember how to close what was just opened."""
        self._stack.callback(self._close_one, name, close)

    def close(self, cause: BaseException | None = None) -> None:
        """Close everything, once. Where an error is the cause, it stays the one that is raised, by the caller."""
        self._stack.close()
        problems, self._problems = self._problems, []
        first = problems.pop(0)[1] if problems and cause is None else None
        for name, problem in problems:
            told = first or cause
            if told is not None:
                told.add_note(f"closing {name} failed as well: {type(problem).__name__}: {problem}")
        if first is not None:
            raise first

    def _close_one(self, name: str, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as problem:
            self._problems.append((name, problem))
