"""How long a task was in each of its vertices, and in each step of them."""

from __future__ import annotations

import time


class VertexClock:
    """Adds up the seconds a task spends in each vertex and step; while one calls another, the time is the other's.

    It is asked once for a batch of rows and a step, not for every row: what it costs does not grow with them.
    """

    def __init__(self, vertices: dict[str, float], steps: dict[str, float]) -> None:
        self._vertices, self._steps = vertices, steps
        self._inside: list[tuple[str, str]] = []
        self._since = 0.0

    def enter(self, vertex: str, step: str | None = None) -> None:
        """A vertex begins to work, in one of its steps; a vertex bears the name of its first step."""
        self._pass()
        self._inside.append((vertex, vertex if step is None else step))

    def enter_step(self, step: str) -> None:
        """A step of the vertex at work begins; what is sent to a step counts as its own."""
        self._pass()
        self._inside.append((self._inside[-1][0] if self._inside else step, step))

    def leave(self) -> None:
        """It is done; the one that called it goes on."""
        self._pass()
        self._inside.pop()

    def _pass(self) -> None:
        now = time.perf_counter()
        if self._inside:
            vertex, step = self._inside[-1]
            passed = now - self._since
            self._vertices[vertex] = self._vertices.get(vertex, 0.0) + passed
            self._steps[step] = self._steps.get(step, 0.0) + passed
        self._since = now
