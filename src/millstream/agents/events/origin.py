"""Where an event comes from: ids that are the same when an epoch is done again, and made only when somebody asks."""

from __future__ import annotations

import contextvars
import uuid
from typing import Protocol


class Execution(Protocol):
    """One execution of an action, as the events that are built in it see it."""

    @property
    def execution_id(self) -> uuid.UUID:
        """The same whenever the epoch is done again."""

    def next_number(self) -> int:
        """Counts what is built in it."""


current: contextvars.ContextVar[Execution | None] = contextvars.ContextVar("execution", default=None)
"""The execution in which code runs now; nothing outside of actions."""


class EventOrigin:
    """The id of an event: derived from its execution, or drawn at random outside of one."""

    __slots__ = ("_execution", "_id", "_number")

    def __init__(self, given: uuid.UUID | None = None) -> None:
        self._id = given
        self._execution = None if given is not None else current.get()
        self._number = 0 if self._execution is None else self._execution.next_number()

    @property
    def id(self) -> uuid.UUID:
        """Made at the first look."""
        if self._id is None:
            self._id = (
                uuid.uuid4() if self._execution is None else uuid.uuid5(self._execution.execution_id, str(self._number))
            )
        return self._id
