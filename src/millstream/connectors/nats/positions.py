"""Positions of a NATS source as values: which stream, the next sequence to read, and what follows from facts seen outside.

Sequences are addresses, never counts: deleted messages and those of other subjects leave gaps. `skip` is where the epoch that
ends at a position begins, if messages before it are gone.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from millstream.connectors.nats.streams import StreamFacts
from millstream.contract.source import Credit, Position, Split

_SMALLEST_CUT = 2_000
"""A range is cut over several tasks only where each of them gets at least that many sequences."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NatsPosition:
    """A position, read."""

    created: str
    at: int
    until: int | None = None
    skip: int = 0

    def to_json(self) -> Position:
        """As it stands in plans."""
        content: dict[str, Any] = {"created": self.created, "at": self.at}
        if self.until is not None:
            content["until"] = self.until
        if self.skip:
            content["skip"] = self.skip
        return content

    @property
    def is_complete(self) -> bool:
        """Whether a bounded source has reached its end."""
        return self.until is not None and self.at >= self.until

    def target(self, facts: StreamFacts) -> int:
        """How far it could be read now."""
        return facts.end if self.until is None else min(facts.end, self.until)


def read_position(content: Position) -> NatsPosition:
    """A position from a plan."""
    return NatsPosition(
        created=content["created"], at=content["at"], until=content.get("until"), skip=content.get("skip", 0)
    )


def advanced(position: NatsPosition, facts: StreamFacts, begin: int, credit: Credit) -> NatsPosition:
    """The position behind an epoch that begins at a sequence and reads as much as the credit allows."""
    rows = int(credit)
    if credit.bytes is not None and rows > 0:
        rows = max(1, min(rows, credit.bytes // facts.row_bytes))
    end = min(begin + rows, position.target(facts)) if rows > 0 else position.at
    return dataclasses.replace(position, at=max(position.at, end))


def splits_between(stream: str, start: NatsPosition, end: NatsPosition, parallelism: int) -> list[Split]:
    """The range of an epoch, cut so that every task gets about the same."""
    first = max(start.at, end.skip)
    if start.created != end.created or first >= end.at:
        return []
    pieces = max(1, min(parallelism, (end.at - first) // _SMALLEST_CUT))
    cuts = [first + (end.at - first) * piece // pieces for piece in range(pieces + 1)]
    return [Split(stream, [end.created, low, high], high - low) for low, high in itertools.pairwise(cuts)]
