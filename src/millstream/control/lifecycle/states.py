"""States of a run and the legal moves between them: one table, from which the documentation draws its picture."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Status(enum.StrEnum):
    """Where a run is in its life."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    INITIALIZING = "INITIALIZING"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    CHECKPOINTING = "CHECKPOINTING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    SUSPENDED = "SUSPENDED"


_S = Status
MOVES: Mapping[Status, frozenset[Status]] = {
    _S.CREATED: frozenset({_S.SCHEDULED, _S.CANCELLED}),
    _S.SCHEDULED: frozenset({_S.INITIALIZING, _S.CANCELLED}),
    _S.INITIALIZING: frozenset({_S.RESTORING, _S.RUNNING, _S.FAILED, _S.CANCELLING}),
    _S.RESTORING: frozenset({_S.RUNNING, _S.FAILED, _S.CANCELLING}),
    _S.RUNNING: frozenset({_S.CHECKPOINTING, _S.COMPLETED, _S.FAILED, _S.CANCELLING, _S.SUSPENDED}),
    _S.CHECKPOINTING: frozenset({_S.RUNNING, _S.COMPLETED, _S.FAILED, _S.CANCELLING, _S.SUSPENDED}),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.FAILED, _S.COMPLETED, _S.SUSPENDED}),
    _S.FAILED: frozenset({_S.SCHEDULED, _S.DEAD, _S.CANCELLED}),
    _S.COMPLETED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.DEAD: frozenset(),
    _S.SUSPENDED: frozenset(),
}
"""From where to where. A run that is cancelled may still complete or be suspended: its driver was first."""
FINAL = frozenset(status for status, after in MOVES.items() if not after)
OPEN = frozenset(MOVES) - FINAL
"""A run in one of these holds its slot: a second one of the job cannot begin. A failed run waits for its next attempt."""
OWNED = frozenset({_S.INITIALIZING, _S.RESTORING, _S.RUNNING, _S.CHECKPOINTING, _S.CANCELLING})
"""A node answers for a run in one of these."""


def is_legal(before: Status, after: Status) -> bool:
    """Whether a run may go from one state to the other."""
    return after in MOVES[before]
