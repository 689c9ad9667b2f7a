"""Calls that outlive a restart of a service: when to ask again, when to stop, and the answer that nobody heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Unanswered(Exception):
    """A request was sent and not answered: it may have happened, may happen yet, or never."""


def attempts(patience: float) -> Iterator[int]:
    """Count attempts, with a growing pause before each but the first, until the seconds of patience end."""
    until, pause, number = time.monotonic() + patience, _FIRST_PAUSE, 0
    while True:
        yield number
        if time.monotonic() + pause > until:
            return
        time.sleep(pause)
        pause, number = min(pause * 2, _LONGEST_PAUSE), number + 1


def repeated(attempt: Callable[[], T], *, passes: Callable[[Exception], bool], patience: float) -> T:
    """Call until it succeeds; an error that does not pass is raised at once, one that does when patience ends."""
    waiting = attempts(patience)
    next(waiting)
    while True:
        try:
            return attempt()
        except Exception as problem:
            if not passes(problem) or next(waiting, None) is None:
                raise
