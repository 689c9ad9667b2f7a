"""From the number of an event to its id, its time, its kind and the newest person and auction at that moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from millstream.connectors.nexmark.draws import Numbers
from millstream.connectors.nexmark.spec import base_ms

PERSONS, AUCTIONS, CYCLE = 1, 3, 50
"""Of every 50 ids, the first is a person, the next three are auctions, the others bids."""
_SHUFFLE = 953


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """How events are numbered and when they happen."""

    rate: float
    base: int
    group: int

    def ids(self, first: int, end: int) -> Numbers:
        """Ids of the events from `first` up to `end`, in the order in which they are given out."""
        numbers = np.arange(first + 1, end + 1, dtype=np.int64)
        if self.group == 1:
            return numbers + 1
        shuffled: Numbers = numbers // self.group * self.group + numbers * _SHUFFLE % self.group + 1
        return shuffled

    def times(self, ids: Numbers, ahead: int = 0) -> Numbers:
        """Event time of each id, or of the one so many ids later, in milliseconds."""
        micros = ((ids - 1 + ahead) * (1e6 / self.rate)).astype(np.int64)
        instants: Numbers = micros // 1000 + self.base
        return instants


def timeline_of(options: Mapping[str, Any]) -> Timeline:
    """The timeline that the options of a source describe."""
    return Timeline(rate=options["rate"], base=base_ms(options["base"]), group=options["group"])


def kinds_of(ids: Numbers) -> Numbers:
    """0 for a person, 1 for an auction, 2 for a bid."""
    slot = ids % CYCLE
    kinds: Numbers = (slot >= PERSONS).astype(np.int32) + (slot >= PERSONS + AUCTIONS)
    return kinds


def last_person(ids: Numbers) -> Numbers:
    """Number of the newest person, from 0."""
    newest: Numbers = ids // CYCLE * PERSONS + np.minimum(ids % CYCLE, PERSONS - 1)
    return newest


def last_auction(ids: Numbers) -> Numbers:
    """Number of the newest auction, from 0; at a person it is the last one of the cycle before."""
    within = np.clip(ids % CYCLE - PERSONS, -1, AUCTIONS - 1)
    newest: Numbers = ids // CYCLE * AUCTIONS + within
    return newest
