"""Work of the driver that would hold an epoch up: done in a thread, taken when it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """One piece of work at a time in a thread of its own; what goes wrong there is raised where the result is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._last: Callable[[], None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return self._thread is not None

    def begin(self, work: Callable[[], None]) -> None:
        """Start work; nothing else may be under way."""
        assert self._thread is None, "one piece of work at a time"
        thread = threading.Thread(target=self._run, args=(work,), name="millstream-jdbc", daemon=True)
        self._thread = thread
        thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as problem:
            self._problem = problem
        with self._lock:
            self._thread, last = None, self._last
        if last is not None:
            last()

    def wait(self, seconds: float) -> None:
        """Wait for the work that is under way, but not longer than that."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def check(self) -> None:
        """Raise what went wrong since it was asked last."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def end(self, last: Callable[[], None]) -> None:
        """Do something last: now, or behind the work that is under way."""
        with self._lock:
            if self._thread is not None:
                self._last = last
                return
        last()
