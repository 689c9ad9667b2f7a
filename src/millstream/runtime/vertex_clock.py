"""How long a task was in each of its vertices."""

from __future__ import annotations

import time


class VertexClock:
    """Adds up the seconds a task spends in each vertex; while one vertex calls another, the time is the other's."""

    def __init__(self, spent: dict[str, float]) -> None:
        self._spent = spent
        self._inside: list[str] = []
        self._since = 0.0

    def enter(self, vertex: str) -> None:
        """A vertex begins to work."""
        self._pass()
        self._inside.append(vertex)

    def leave(self) -> None:
        """It is done; the one that called it goes on."""
        self._pass()
        self._inside.pop()

    def _pass(self) -> None:
        now = time.perf_counter()
        if self._inside:
            vertex = self._inside[-1]
            self._spent[vertex] = self._spent.get(vertex, 0.0) + now - self._since
        self._since = now
