"""Who a run is: ids that follow from job, step, key and input, so that an epoch that is done again has the same ones."""

from __future__ import annotations

import collections
import hashlib
import uuid
from typing import Any, NamedTuple

import msgspec

from millstream.agents.events.codec import checked_copy, encode

_RUNS = uuid.UUID("6f1c3f0e-52b7-4f0e-9a59-4d7c1c2f6a11")
Key = tuple[Any, ...]


class StepIdentity(NamedTuple):
    """The step whose inputs become runs, in one epoch."""

    job: str
    uid: str
    epoch: int


class Occurrence:
    """One input of a key: its epoch, its content, and its number among equal inputs of the key in that epoch.

    Not its place: the rows of an epoch may come in another order when a step before the agent gave them in another.
    """

    __slots__ = ("_content", "_ordinal", "_step", "key")

    def __init__(self, step: StepIdentity, key: Key, content: bytes, ordinal: int) -> None:
        self._step, self.key, self._content, self._ordinal = step, key, content, ordinal

    @property
    def run_id(self) -> uuid.UUID:
        """The id of its run."""
        key = encode(list(self.key))
        parts = (*self._step, key, hashlib.sha256(self._content).digest(), self._ordinal)
        return uuid.UUID(bytes=hashlib.sha256(_RUNS.bytes + msgspec.msgpack.encode(parts)).digest()[:16], version=5)


class Occurrences:
    """Numbers equal inputs of an epoch."""

    def __init__(self, step: StepIdentity) -> None:
        self._step = step
        self._seen: collections.Counter[int] = collections.Counter()

    def of(self, key: Key, row: Any) -> Occurrence:
        """The next input of a key."""
        content = encode(checked_copy(row, "the input"))
        place = hash((key, content))
        self._seen[place] += 1
        return Occurrence(self._step, key, content, self._seen[place])
