"""What the driver asks the server for and does not wait for: done in a thread, fetched when it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Errand(Generic[T]):
    """One call in a thread of its own. What goes wrong there is raised where the result is fetched."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: T | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-cdc", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as problem:
            self._problem = problem

    def is_done(self, seconds: float) -> bool:
        """Wait so long, at most, and say whether there is a result."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def fetched(self) -> T:
        """The result, or what went wrong."""
        if self._problem is not None:
            raise self._problem
        result: Any = self._result
        return result  # type: ignore[no-any-return]
