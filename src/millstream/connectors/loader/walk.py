"""Walks a load function ahead of the epochs, in a thread: where its positions are, and how many rows lie between them."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from millstream.connectors.loader.chained import ChainedDigest

_ROOM = 1000
_CLOSING_SECONDS = 5.0
_LOOK_SECONDS = 0.05
"""How long a question waits for the first answer."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WalkMark:
    """A position that the function came to, and what lies between the one before and it."""

    position: Any
    rows: int
    is_counted: bool = True
    """Whether the rows were counted; else somebody said how many there are, about."""
    digest: ChainedDigest | None = None


class Walked(NamedTuple):
    """What is known behind a position."""

    marks: Sequence[WalkMark]
    is_ended: bool
    """Whether the function has nothing more behind the last of them."""


class Walk:
    """One call of a function that looks where it comes to; it pauses where it is too far ahead."""

    def __init__(self, start: Any, marks: Callable[[], Generator[WalkMark]]) -> None:
        self._changed = threading.Condition()
        self._start = start
        self._marks: deque[WalkMark] = deque()
        self._failure: Exception | None = None
        self._is_ended = self._is_closed = False
        self.ended_at = 0.0
        """When the function came to its end, by the clock that does not go back."""
        self._thread = threading.Thread(target=self._run, args=(marks,), name="millstream-loader", daemon=True)
        self._thread.start()

    def _run(self, marks: Callable[[], Generator[WalkMark]]) -> None:
        try:
            with contextlib.closing(marks()) as walked:
                for mark in walked:
                    if not self._take(mark):
                        return
        except Exception as problem:
            self._end(problem)
        else:
            self._end(None)

    def _take(self, mark: WalkMark) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._marks) < _ROOM)
            self._marks.append(mark)
            self._changed.notify_all()
            return not self._is_closed

    def _end(self, problem: Exception | None) -> None:
        with self._changed:
            self._failure, self._is_ended, self.ended_at = problem, True, time.monotonic()
            self._changed.notify_all()

    def leads_to(self, position: Any) -> bool:
        """Whether a position lies on the way; what lies before it is forgotten."""
        with self._changed:
            if position == self._start:
                return True
            places = (place for place, mark in enumerate(self._marks) if mark.position == position)
            if (place := next(places, None)) is None:
                return False
            self._start = position
            for _ in range(place + 1):
                self._marks.popleft()
            self._changed.notify_all()
            return True

    def behind(self) -> Walked:
        """What is known behind the position that was asked for last; raises what stopped the function right there."""
        with self._changed:
            self._changed.wait_for(lambda: self._marks or self._is_ended, timeout=_LOOK_SECONDS)
            if self._failure is not None and not self._marks:
                raise self._failure
            return Walked(tuple(self._marks), self._is_ended and self._failure is None)

    def close(self) -> None:
        """End the function where it stands; one that does not come back is left to itself."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(_CLOSING_SECONDS)
