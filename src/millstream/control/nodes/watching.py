"""Drivers that ended without a word, that hang, or that do not end although they should. Pure but for the clock."""

from __future__ import annotations

from collections.abc import Callable

from millstream.control.nodes.host import DriverHost
from millstream.control.nodes.owned import OwnedRun

START_SECONDS = 60.0
"""A driver that has not said who it is by then will not."""
SILENT_SECONDS = 30.0
"""A driver that says nothing for so long is asked what its threads do."""
HUNG_SECONDS = 60.0
"""And for so long is ended."""
CANCEL_SECONDS = 30.0
_UNWATCHED_SECONDS = 5.0
"""A node that did not look for so long slept or waited for the database: how long drivers were silent, it cannot know."""


class Watching:
    """Looks at every driver once a round."""

    def __init__(self, host: DriverHost, monotonic: Callable[[], float]) -> None:
        self._host, self._monotonic = host, monotonic
        self._looked = self._watched_since = monotonic()

    def lost(self, runs: list[OwnedRun]) -> list[tuple[OwnedRun, str]]:
        """Runs whose driver is gone or has to go, with the reason."""
        now = self._monotonic()
        if now - self._looked > _UNWATCHED_SECONDS:
            self._watched_since = now
        self._looked = now
        found = [(owned, self._cause(owned)) for owned in runs]
        return [(owned, cause) for owned, cause in found if cause is not None]

    def _cause(self, owned: OwnedRun) -> str | None:
        now = self._monotonic()
        is_alive = self._host.is_alive(owned.id, owned.token)
        if is_alive is None:
            return "its driver did not start" if now - owned.since > START_SECONDS else None
        if not is_alive:
            return self._of_dead(owned)
        if owned.cancelled_at is not None and now - owned.cancelled_at > CANCEL_SECONDS:
            return f"it did not end {CANCEL_SECONDS:g} s after it was cancelled"
        return self._of_silent(owned, now)

    def _of_dead(self, owned: OwnedRun) -> str | None:
        """Its last words may still be on their way, or on the disk: what has come is written down first."""
        if owned.inbox:
            return None
        words = self._host.last_words(owned.id, owned.token, after=owned.seq)
        for report in words:
            owned.take(report)
        return None if words else "its driver ended without a word"

    def _of_silent(self, owned: OwnedRun, now: float) -> str | None:
        heard = max(owned.since, self._watched_since, 0.0 if owned.link is None else owned.link.last_heard)
        if now - heard > HUNG_SECONDS:
            return f"its driver said nothing for {HUNG_SECONDS:g} s"
        if now - heard > SILENT_SECONDS and owned.link is not None and not owned.is_dumped:
            owned.link.dump("silent")
            self._host.dump(owned.id, owned.token)
            owned.is_dumped = True
        return None
