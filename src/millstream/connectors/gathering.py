"""A source with an end lets its epochs grow: nobody waits for single rows, and few large epochs cost less than many small."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 1.0
"""How long rows that are there wait for others, at most."""


class GatheringPause:
    """Says whether an epoch waits for more; asked each time one could begin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def goes_on(self, *, is_enough: bool) -> bool:
        """Whether to wait on. It is enough when an epoch can hold no more, or nothing more is on its way."""
        now = self._clock()
        if is_enough or (self._since is not None and now - self._since >= _SECONDS):
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return True
