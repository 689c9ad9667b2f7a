"""Messages of the log: side by side in one buffer, so that thousands are looked at at once; and the tables they describe."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MessageBlock:
    """Messages side by side in one buffer, each with the place of the log that it is about."""

    data: Bytes
    starts: Numbers
    ends: Numbers
    lsns: Numbers

    @property
    def letters(self) -> Bytes:
        """What kind of message each is."""
        return self.data[self.starts]

    def message(self, place: int) -> bytes:
        """One message."""
        return self.data[self.starts[place] : self.ends[place]].tobytes()


def block_of(rows: Sequence[bytes], *, head: int = 0, lsn_at: int | None = None) -> MessageBlock:
    """A block of messages that stand behind a head of some bytes, in which their place may be."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    lsns = np.zeros(len(rows), np.int64) if lsn_at is None else number_at(data, begins + lsn_at, 8)
    return MessageBlock(data, begins + head, ends, lsns)


def number_at(data: Bytes, at: Numbers, size: int) -> Numbers:
    """The numbers that begin at these places, each of so many bytes, the highest first."""
    made = data[at].astype(np.int64)
    for further in range(1, size):
        made = (made << 8) | data[at + further]
    return made


class RelationColumn(NamedTuple):
    """A column as the server describes it."""

    name: str
    type_oid: int
    is_key: bool
    """Whether it is part of the replica identity."""


class TableRelation(NamedTuple):
    """A table as it was when the changes behind this message were made."""

    oid: int
    schema: str
    table: str
    identity: str
    """Replica identity: `d` primary key, `i` an index, `f` the full row, `n` nothing."""
    columns: tuple[RelationColumn, ...]


def described(message: bytes) -> TableRelation:
    """The table that a message describes."""
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, at = _text(message, 5)
    table, at = _text(message, at)
    identity, (count,) = chr(message[at]), struct.unpack_from(">h", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(message[at] & 1)
        name, at = _text(message, at + 1)
        (type_oid,) = struct.unpack_from(">I", message, at)
        columns.append(RelationColumn(name, type_oid, is_key))
        at += 8  # its type, and what is said of that: a length, digits
    return TableRelation(oid, schema, table, identity, tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1
