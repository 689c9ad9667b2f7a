"""Looks at folders in which files may arrive. A folder that hangs keeps its own schedule waiting, and no other."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from millstream.control.schedule.arrivals import Listing, listed

_MOST_LOOKS = 32
"""So many folders are looked through at once; those that hang are among them."""


class DueLook(NamedTuple):
    """A look that is due: once for each time of a schedule."""

    pattern: str
    at: dt.datetime


@dataclasses.dataclass(slots=True)
class _LookUnderWay:
    wanted: DueLook
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    found: Listing | Exception | None = None

    def run(self, roots: Sequence[Path]) -> None:
        try:
            self.found = listed(self.wanted.pattern, roots)
        except Exception as problem:
            self.found = problem
        self.done.set()


class FolderLooks:
    """Looks that are under way; what they find is taken once, by the turn that asks for it."""

    def __init__(self, patience: float = 2.0) -> None:
        """`patience`: seconds that one turn waits for all looks that it began."""
        self._patience = patience
        self._looks: dict[int, _LookUnderWay] = {}

    def found(self, wanted: Mapping[int, DueLook], roots: Sequence[Path]) -> dict[int, Listing | Exception]:
        """What there is, by schedule; one whose look is not through is missing, and is asked for again."""
        self._looks = {id: look for id, look in self._looks.items() if id in wanted or not look.done.is_set()}
        begun = [look for id, each in wanted.items() if (look := self._begun(id, each, roots)) is not None]
        until = time.monotonic() + self._patience
        for look in begun:
            look.done.wait(max(until - time.monotonic(), 0))
        taken = {id: self._taken(id, each) for id, each in wanted.items()}
        return {id: found for id, found in taken.items() if found is not None}

    def _begun(self, id: int, wanted: DueLook, roots: Sequence[Path]) -> _LookUnderWay | None:
        """A look that begins now. What an earlier one found is too old if another server has looked since."""
        there = self._looks.get(id)
        if there is not None and (there.wanted == wanted or not there.done.is_set()):
            return None
        if len(self._looks) >= _MOST_LOOKS + (there is not None):
            return None
        look = self._looks[id] = _LookUnderWay(wanted)
        threading.Thread(target=look.run, args=(roots,), name=f"millstream-look-{id}", daemon=True).start()
        return look

    def _taken(self, id: int, wanted: DueLook) -> Listing | Exception | None:
        look = self._looks.get(id)
        if look is None or not look.done.is_set():
            return None
        del self._looks[id]
        return look.found if look.wanted == wanted else None
