"""Boundaries of ranges, found ahead of the epochs that deal them out, and no further than those need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from millstream.connectors.jdbc.reading.background import Background
from millstream.connectors.jdbc.reading.keys import KeyValues
from millstream.connectors.jdbc.reading.probe import StatementTimedOut

WAIT_SECONDS = 0.08
"""How long an epoch waits for boundaries that are being asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """The end of a range, and how many rows it has."""

    key: KeyValues
    rows: int
    is_last: bool = False
    """Nothing follows up to the bound; without rows, nothing is left up to it."""


Ask = Callable[[KeyValues | None, KeyValues, int], Boundary]
"""The boundary so many rows behind a key, or the last one up to a bound."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Stretch:
    """What is known behind one key up to one bound. The thread that looks ahead only ever adds to it."""

    base: KeyValues | None
    upper: KeyValues
    found: list[Boundary] = dataclasses.field(default_factory=list)

    def behind(self, key: KeyValues | None) -> list[Boundary] | None:
        """The boundaries behind a key; `None` where it is none of them."""
        known = list(self.found)
        if key == self.base:
            return known
        place = next((place for place, each in enumerate(known) if each.key == key), None)
        return None if place is None else known[place + 1 :]


class Boundaries:
    """Asks for the next boundaries in the background; a statement that takes too long makes the steps smaller."""

    def __init__(self, ask: Ask, background: Background) -> None:
        self._ask, self._background = ask, background
        self._stretch: _Stretch | None = None
        self._largest: int | None = None
        """A step that may be answered in time, once a larger one was not."""

    def take(self, at: KeyValues | None, upper: KeyValues, wanted: int, step: int) -> list[Boundary]:
        """Boundaries behind a key for about so many rows, at least one; none where they are not known yet."""
        self._background.check()
        known = self._known(at, upper)
        if _needs_more(known, wanted):
            self._look_ahead(at, wanted, step)
            self._background.wait(WAIT_SECONDS)
            self._background.check()
            known = self._known(at, upper)
        # While these are read, those of the next epoch are found.
        if _needs_more(known, 2 * wanted):
            self._look_ahead(at, 2 * wanted, step)
        return _within(known, wanted)

    def forget(self) -> None:
        """Look no further."""
        self._stretch = None

    def _known(self, at: KeyValues | None, upper: KeyValues) -> list[Boundary]:
        stretch = self._stretch
        known = stretch.behind(at) if stretch is not None and stretch.upper == upper else None
        if known is None or not self._background.is_busy:
            # What lies before is forgotten, unless someone is adding to it.
            known = known or []
            self._stretch = _Stretch(at, upper, known)
        return list(known)

    def _look_ahead(self, at: KeyValues | None, wanted: int, step: int) -> None:
        stretch = self._stretch
        assert stretch is not None, "it was asked what is known"
        if not self._background.is_busy:
            self._background.begin(lambda: self._find(stretch, at, wanted, step))

    def _find(self, stretch: _Stretch, at: KeyValues | None, wanted: int, step: int) -> None:
        while stretch is self._stretch and _needs_more(known := stretch.behind(at) or [], wanted):
            size = min(step, self._largest or step)
            try:
                stretch.found.append(self._ask(known[-1].key if known else at, stretch.upper, size))
            except StatementTimedOut:
                if size == 1:
                    raise
                self._largest = size // 2


def _needs_more(known: list[Boundary], wanted: int) -> bool:
    return not (known and known[-1].is_last) and sum(each.rows for each in known) < wanted


def _within(known: list[Boundary], wanted: int) -> list[Boundary]:
    taken: list[Boundary] = []
    rows = 0
    for each in known:
        if taken and rows + each.rows > wanted:
            break
        taken.append(each)
        rows += each.rows
    return taken
