"""Whether the node still holds the run: without word from it a driver publishes no more, and ends after a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum


class Standing(StrEnum):
    """How a run stands with its node."""

    HELD = "held"
    SILENT = "silent"
    """Another node may have the run by now: nothing is published until the node says that it does not."""
    ORPHANED = "orphaned"
    """Nobody will ask for the run any more: it ends."""


def standing(now: float, renewed: float, *, left: float, hold_after: float, end_after: float) -> Standing:
    """Decide by the last renewal.

    Args:
        now: seconds of a clock that counts while the machine sleeps.
        renewed: when the node said that it holds the run, or when the process began.
        left: seconds that its lease had then.
        hold_after: seconds of silence that are borne.
        end_after: seconds after which the run ends.
    """
    silent = now - renewed
    if silent >= end_after:
        return Standing.ORPHANED
    return Standing.SILENT if silent >= min(left, hold_after) else Standing.HELD


def boot_seconds() -> float:
    """A clock that counts while the machine sleeps, and is one for all processes of it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Renewals:
    """The last renewal; shared between threads."""

    def __init__(self, *, hold_after: float, end_after: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._hold_after, self._end_after, self._clock = hold_after, end_after, clock
        self._lock = threading.Lock()
        self._renewed, self._left = clock(), hold_after

    def renewed(self, left: float, sent: float | None = None) -> None:
        """The node holds the run for so many seconds more, counted from when it said so."""
        now = self._clock()
        with self._lock:
            at = now if sent is None else min(sent, now)
            if at >= self._renewed:
                self._renewed, self._left = at, left

    @property
    def standing(self) -> Standing:
        """How the run stands now."""
        with self._lock:
            renewed, left = self._renewed, self._left
        return standing(self._clock(), renewed, left=left, hold_after=self._hold_after, end_after=self._end_after)

    def may_publish(self) -> bool:
        """Whether an epoch may become durable."""
        return self.standing is Standing.HELD
