"""Stores behind a connection: a write whose reply was lost is looked up, never guessed.

Every write carries an id of its own, stored beside the content. After any write that was not confirmed, the object is read back:
1. It carries our id: the write happened.  2. Nothing changed: write again, with the same id, so that a late arrival of the first
attempt is ours too.  3. Something else is there: a create has lost, since created objects never change; a swap has lost if
every attempt was answered, else its outcome is unknown (ours may have been replaced in turn) and an error says so.
"""

from __future__ import annotations

import dataclasses
import uuid
from abc import ABC, abstractmethod

from millstream.checkpoint.stores.base import checked_name
from millstream.database.retry import Unanswered, attempts
from millstream.errors import ExternalFailure

PATIENCE_SECONDS = 20.0
"""How long a service may be away before a call fails."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object and the id of the write that made it."""

    content: bytes
    writer: str


class RemoteStore(ABC):
    """`create`, `swap` and `read` over a service that can insert and replace atomically."""

    patience = PATIENCE_SECONDS

    @abstractmethod
    def _insert(self, name: str, stored: Stored) -> bool:
        """Make an object if there is none; may raise `Unanswered`."""

    @abstractmethod
    def _replace(self, name: str, expected: bytes, stored: Stored) -> bool:
        """Replace an object with exactly the expected content; may raise `Unanswered`."""

    @abstractmethod
    def _look(self, name: str) -> Stored | None:
        """What is there, read consistently."""

    @abstractmethod
    def _failure(self, why: str) -> ExternalFailure:
        """An error that names the service."""

    def close(self) -> None:  # noqa: B027
        """Nothing is open, unless a store says otherwise."""

    def create(self, name: str, content: bytes) -> bool:
        """Insert an object under a new name."""
        checked_name(name)
        stored, problem = Stored(content=content, writer=uuid.uuid4().hex), "no attempt was made"
        for _ in attempts(self.patience):
            try:
                if self._insert(name, stored):
                    return True
                problem = f"{name!r} exists for writes and not for reads"
            except Unanswered as unanswered:
                problem = str(unanswered)
            present = self._look(name)
            if present is not None:
                return present.writer == stored.writer
        raise self._failure(problem)

    def swap(self, name: str, expected: bytes | None, content: bytes) -> bool:
        """Replace what is expected."""
        if expected is None:
            return self.create(name, content)
        checked_name(name)
        stored, unanswered = Stored(content=content, writer=uuid.uuid4().hex), ""
        for _ in attempts(self.patience):
            try:
                if self._replace(name, expected, stored):
                    return True
            except Unanswered as problem:
                unanswered = str(problem)
            present = self._look(name)
            if present is not None and present.writer == stored.writer:
                return True
            if present is None or present.content != expected:
                if unanswered:
                    msg = f"whether {name!r} was replaced is unknown: {unanswered}"
                    raise self._failure(msg)
                return False
        raise self._failure(unanswered or f"{name!r} changes all the time")

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        present = self._look(checked_name(name))
        return None if present is None else present.content
