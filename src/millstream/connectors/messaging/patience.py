"""A broker that is away is asked again, for a while: nothing is read meanwhile, and nothing else stands still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from millstream.contract.source import Advance, Position
from millstream.errors import ExternalFailure
from millstream.model.time import now_ms

PATIENCE = 60.0
"""For how many seconds a broker that does not answer is asked again."""
_RETRY_MS = 500
_PAUSE_SECONDS = 0.1
T = TypeVar("T")


class AwayPatience:
    """Since when a broker is away, as its source sees it."""

    def __init__(self, *, refused: str) -> None:
        """`refused` is the code of errors that asking again does not mend."""
        self._refused, self._since = refused, 0.0

    def back(self) -> None:
        """It has answered."""
        self._since = 0.0

    def waits(self, start: Position, partition: str, problem: ExternalFailure, *, finished: bool) -> Advance:
        """An epoch that reads nothing; the problem is raised once patience has ended."""
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since > PATIENCE or problem.code == self._refused:
            raise problem
        return Advance(
            position=start,
            finished=finished,
            not_before=now_ms() + _RETRY_MS,
            partitions=(partition,),
            drained=(),
            blocked={partition: f"the server is away: {problem.found}"},
        )

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, a refusal, or patience ends."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except ExternalFailure as problem:
                if time.monotonic() > until or problem.code == self._refused:
                    raise
                time.sleep(_PAUSE_SECONDS)
