"""Time to live of state: content is stored with the time it was written, is not given out when expired, and is swept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from millstream.graph.state import StateDescriptor
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.state.entries import Entries, Entry
from millstream.state.pages import NEVER

UNDATED = MIN_TIME
"""Written before there was event time, or before the state expired by it; dated by the next watermark."""


class Clocks(Protocol):
    """The current entry, and the times at which it is used."""

    now: int
    entry: Entry

    @property
    def event_now(self) -> int:
        """Event time."""
        ...


class ExpiringCell:
    """A slot that stores (written at, content) and forgets it after its time to live."""

    __slots__ = ("_clocks", "_is_event_timed", "_is_prolonged", "_slot", "_ttl")

    def __init__(self, clocks: Clocks, slot: int, state: StateDescriptor) -> None:
        assert state.ttl is not None, "a state in an expiring cell has a time to live"
        self._clocks, self._slot, self._ttl = clocks, slot, state.ttl
        self._is_event_timed, self._is_prolonged = state.is_event_timed, state.ttl_update == "read"

    def _now(self) -> int:
        return self._clocks.event_now if self._is_event_timed else self._clocks.now

    def load(self) -> Any:
        """The content, unless it has expired; reading may prolong its life."""
        stored = self._clocks.entry.slots[self._slot]
        if stored is None or (stored[0] != UNDATED and stored[0] + self._ttl <= self._now()):
            return None
        if self._is_prolonged and self._now() > stored[0]:
            self.store(stored[1])
        return stored[1]

    def store(self, content: Any) -> None:
        """Replace the content; a row that is older than the last write does not shorten its life."""
        entry, written = self._clocks.entry, self._now()
        stored = entry.slots[self._slot]
        if stored is not None and self._is_event_timed:
            written = max(written, stored[0])
        entry.slots[self._slot] = None if content is None else (written, content)
        entry.is_dirty = True
        if content is not None and not self._is_event_timed:
            entry.expiry = min(entry.expiry, written + self._ttl)


class Sweep:
    """Drops what has expired, so that it does not stay for ever. An entry is visited when the first of its slots expires."""

    def __init__(self, states: tuple[StateDescriptor, ...]) -> None:
        timed = [(slot, state.ttl, state) for slot, state in enumerate(states)]
        self._processing = [(slot, ttl) for slot, ttl, state in timed if ttl is not None and not state.is_event_timed]
        self._event = [(slot, ttl) for slot, ttl, state in timed if ttl is not None and state.is_event_timed]

    @property
    def event_expiry(self) -> Callable[[list[Any]], int] | None:
        """Gives the event time at which the first slot of an entry expires; `None` where none does."""
        return self._first_event_expiry if self._event else None

    def _first_event_expiry(self, slots: list[Any]) -> int:
        return min((slots[slot][0] + ttl for slot, ttl in self._event if slots[slot] is not None), default=NEVER)

    def run(self, entries: Entries, *, now: int, watermark: int) -> None:
        """Visit the entries that are due."""
        if not self._processing and not self._event:
            return
        event = watermark if self._event else -MAX_TIME
        for share in entries.due_shares(event=event, processing=now):
            for entry in share:
                self._visit(entry, now, watermark)

    def _visit(self, entry: Entry, now: int, watermark: int) -> None:
        if entry.expiry <= now:
            _drop(entry, self._processing, now)
            ends = [entry.slots[slot][0] + ttl for slot, ttl in self._processing if entry.slots[slot] is not None]
            entry.expiry = min(ends, default=NEVER)
            entry.is_dirty = True
        if self._event and watermark > MIN_TIME:
            self._date(entry, watermark)
            _drop(entry, self._event, watermark)
            entry.is_dirty = True

    def _date(self, entry: Entry, watermark: int) -> None:
        for slot, _ in self._event:
            stored = entry.slots[slot]
            if stored is not None and stored[0] == UNDATED:
                entry.slots[slot] = (watermark, stored[1])


def _drop(entry: Entry, slots: list[tuple[int, int]], until: int) -> None:
    for slot, ttl in slots:
        stored = entry.slots[slot]
        if stored is not None and stored[0] + ttl <= until:
            entry.slots[slot] = None
