"""One open stream, and what it still has to send."""

from __future__ import annotations

import asyncio
from collections import deque

from millstream.server.streams.topics import Announced, concerns

_LESS = "progress"
"""What goes first when a reader is slow: a newer one says more."""


class Listener:
    """It is used by the event loop alone."""

    def __init__(self, most: int, topics: frozenset[str]) -> None:
        self.topics, self._most = topics, most
        self._waiting: deque[Announced] = deque()
        self._came = asyncio.Event()
        self.overflowed = False
        """It reads too slowly, and has to begin anew."""

    def tell(self, told: Announced) -> None:
        """Put an event behind the others, if it concerns this one."""
        if concerns(self.topics, told) and self._has_room(told):
            self._waiting.append(told)
            self._came.set()

    def _has_room(self, told: Announced) -> bool:
        if len(self._waiting) < self._most:
            return True
        oldest = next((each for each in self._waiting if each.event == _LESS), None)
        if oldest is not None:
            self._waiting.remove(oldest)
            return True
        self.overflowed = self.overflowed or told.event != _LESS
        self._came.set()
        return False

    async def next(self, seconds: float) -> Announced | None:
        """The next event, or `None` after so long."""
        if not self._waiting:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), seconds)
            except TimeoutError:
                return None
        return self._waiting.popleft() if self._waiting else None
