"""One act of the control plane: a transaction, the time it happens at, and who wants it."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from millstream.control.lifecycle.moves import Cause
from millstream.control.metadata.database import Metadata

SYSTEM = "system"
"""Who acts where nobody asked: schedules, restarts, sweeps."""


class Act(NamedTuple):
    """What every function that changes something is given."""

    connection: Connection
    now: dt.datetime
    actor: str = SYSTEM

    def cause(self, text: str, **details: object) -> Cause:
        """Why something happens, as it is written into events."""
        return Cause(text, self.actor, details or None)


@contextlib.contextmanager
def acting(metadata: Metadata, actor: str = SYSTEM) -> Iterator[Act]:
    """One transaction; what is raised in the body undoes it."""
    with metadata.begin() as connection:
        yield Act(connection, metadata.now(connection), actor)


@contextlib.contextmanager
def reading(metadata: Metadata) -> Iterator[Act]:
    """One transaction that only looks."""
    with metadata.read() as connection:
        yield Act(connection, metadata.now(connection))
