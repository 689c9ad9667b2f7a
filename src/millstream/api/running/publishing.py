"""What a run is publishing now, and since when: for those who watch it from another thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple


class _UnderWay(NamedTuple):
    what: str
    since: float


class Publishing:
    """An epoch between its preparation and its publication, or a savepoint that is being taken; one at a time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._now: _UnderWay | None = None

    @contextlib.contextmanager
    def of(self, what: str) -> Iterator[None]:
        """While this goes on, however it ends."""
        self._now = _UnderWay(what, self._monotonic())
        try:
            yield
        finally:
            self._now = None

    def longer_than(self, seconds: float) -> str | None:
        """What has been under way for longer than that, if anything has."""
        now = self._now
        return now.what if now is not None and self._monotonic() - now.since > seconds else None
