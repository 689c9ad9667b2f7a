"""Positions of the source, and what is decided from them: which stretches of copied rows and of the log an epoch reads.

| phase | everything before it has been read |
|---|---|
| `begin` | nothing |
| `snapshot` | so many rows of the copy that was made of the table |
| `stream` | the copy, and every transaction whose commit stands before a place of the log |
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

from millstream.contract.source import Position

Phase = Literal["begin", "snapshot", "stream"]


class SeenBy(NamedTuple):
    """The transactions that a copy of the table shows already: a snapshot as PostgreSQL writes it, and where it was taken."""

    snapshot: str
    until: int
    """Commits from there on are not in it."""

    def shows(self, xid: int) -> bool:
        """Whether a transaction that has committed is in the copy."""
        lowest, behind_last, running = self.snapshot.split(":")
        # Changes tell the lower half of a number; both are near each other.
        number = _widened(xid, int(behind_last))
        if number < int(lowest):
            return True
        return number < int(behind_last) and str(number) not in running.split(",")


def _widened(xid: int, near: int) -> int:
    return near + (xid - near + 2**31) % 2**32 - 2**31


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CdcPosition:
    """A position, as a value."""

    phase: Phase
    rows: int = 0
    """Of the copy."""
    oid: int = 0
    """The table, whatever its name is now."""
    lsn: int = 0
    seen: SeenBy | None = None
    """While `lsn` has not passed everything that the copy may show."""
    quiet_from: int | None = None
    """From there to `lsn` the log holds no change of the table: nothing has to be read."""

    def to_json(self) -> Position:
        """As plans hold it."""
        if self.phase == "begin":
            return {"phase": "begin"}
        if self.phase == "snapshot":
            return {"phase": "snapshot", "rows": self.rows}
        made: dict[str, Any] = {"phase": "stream", "lsn": lsn_text(self.lsn), "oid": self.oid}
        if self.seen is not None:
            made["seen"] = {"snapshot": self.seen.snapshot, "until": lsn_text(self.seen.until)}
        if self.quiet_from is not None:
            made["quiet_from"] = lsn_text(self.quiet_from)
        return made

    def read_to(self, lsn: int, *, is_quiet: bool = False) -> CdcPosition:
        """The position at a later place of the log; what the copy shows is forgotten once it is passed."""
        seen = None if self.seen is None or lsn >= self.seen.until else self.seen
        return dataclasses.replace(self, lsn=lsn, seen=seen, quiet_from=self.lsn if is_quiet else None)


BEGIN = CdcPosition(phase="begin")


def position_of(value: Position) -> CdcPosition:
    """Read a position back."""
    if value["phase"] != "stream":
        return CdcPosition(phase=value["phase"], rows=value.get("rows", 0))
    seen, quiet = value.get("seen"), value.get("quiet_from")
    return CdcPosition(
        phase="stream",
        lsn=lsn_number(value["lsn"]),
        oid=value["oid"],
        seen=None if seen is None else SeenBy(seen["snapshot"], lsn_number(seen["until"])),
        quiet_from=None if quiet is None else lsn_number(quiet),
    )


class LogStretch(NamedTuple):
    """A stretch of the log to read: transactions whose commit stands from `first` on and before `end`."""

    first: int
    end: int
    oid: int
    seen: SeenBy | None

    def to_json(self) -> list[Any]:
        """As a split holds it."""
        seen = None if self.seen is None else [self.seen.snapshot, lsn_text(self.seen.until)]
        return [lsn_text(self.first), lsn_text(self.end), self.oid, seen]


def stretch_of(value: Any) -> LogStretch:
    """Read a stretch back."""
    first, end, oid, seen = value
    shown = None if seen is None else SeenBy(seen[0], lsn_number(seen[1]))
    return LogStretch(lsn_number(first), lsn_number(end), oid, shown)


def stretch_between(start: CdcPosition, end: CdcPosition) -> LogStretch | None:
    """What to read of the log between two positions of the stream; `None` where nothing is there to read."""
    is_known_quiet = end.quiet_from is not None and start.lsn >= end.quiet_from
    if start.lsn >= end.lsn or is_known_quiet:
        return None
    return LogStretch(start.lsn, end.lsn, start.oid, start.seen)


class WaitingChanges(NamedTuple):
    """What a look into the log behind a position has found."""

    upto: int
    """How far it looked, at most."""
    changes: int
    end: int
    """Behind the last transaction that was counted."""
    is_complete: bool
    """Whether everything up to `upto` was counted."""


def end_of_epoch(start: int, waiting: WaitingChanges, credit: int, most_bytes: int | None) -> int:
    """How far an epoch reads: everything, or about as many changes as the credit allows, by the log that the first ones took.

    A transaction is never cut: one that is larger than the credit is an epoch all the same.
    """
    if waiting.is_complete and waiting.changes <= credit:
        return waiting.upto
    span = (waiting.end - start) * credit // max(1, waiting.changes)
    if most_bytes is not None:
        span = min(span, most_bytes)
    return max(waiting.end, min(waiting.upto, start + span))


def lsn_text(lsn: int) -> str:
    """A place of the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A place of the log as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
