"""Messages of `pgoutput`, the output plugin that comes with PostgreSQL, version 1 of its protocol: many of them at a time.

Nothing here asks the server for anything, and nothing goes value by value: thousands of messages lie in one buffer, and where
each value of a column begins in it is found for all of them at once. Values stay the text that the server wrote.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.connectors.postgres_cdc.messages import (
    Bytes,
    Flags,
    MessageBlock,
    Numbers,
    TableRelation,
    described,
    number_at,
)
from millstream.errors import StepFailed

TEXT, NULL, GAP = ord("t"), ord("n"), ord("u")
"""What a value is: a text; null; a long value that an update left as it was, which the server does not send."""
INSERT, UPDATE, DELETE = ord("I"), ord("U"), ord("D")
_KNOWN = np.frombuffer(b"BCIUDRTOYM", np.uint8)
_MICROSECONDS_TO_2000 = 946_684_800_000_000


class Transactions(NamedTuple):
    """Transactions, in the order of their commits."""

    commit_lsn: Numbers
    """Where the commit stands in the log."""
    commit_time: Numbers
    """Microseconds since 1970."""
    xid: Numbers

    def take(self, places: Numbers) -> Transactions:
        """Some of them, or the same several times."""
        return Transactions(*(each[places] for each in self))


_NO_TRANSACTION = Transactions(*(np.full(1, -1, np.int64) for _ in range(3)))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TupleValues:
    """Where the values of tuples lie: for each column and tuple what it is, where it begins and how long it is."""

    data: Bytes
    marks: Bytes
    begins: Numbers
    sizes: Numbers

    def take(self, of: Numbers) -> TupleValues:
        """Some of the tuples."""
        return TupleValues(self.data, self.marks[:, of], self.begins[:, of], self.sizes[:, of])

    def column(self, place: int, of: Numbers) -> pa.Array:
        """A column of some tuples as texts; what is no text is null."""
        begins, sizes = self.begins[place][of], self.sizes[place][of]
        offsets = np.zeros(len(of) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        texts = self.data[np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])]
        is_text = np.packbits(self.marks[place][of] == TEXT, bitorder="little")
        buffers = [pa.py_buffer(is_text), pa.py_buffer(offsets), pa.py_buffer(texts)]
        return pa.Array.from_buffers(pa.large_binary(), len(of), buffers)


class TableChanges(NamedTuple):
    """Inserts, updates and deletes of one table while it had the same columns, in the order of the log."""

    relation: TableRelation
    letters: Bytes
    lsns: Numbers
    transactions: Transactions
    """That of each change."""
    old: TupleValues
    """What rows were before, as far as the replica identity tells: null where it does not."""
    has_old: Flags
    is_old_whole: Flags
    new: TupleValues


class TableTruncation(NamedTuple):
    """A table that was emptied at once."""

    relation: TableRelation


Wanted = Callable[[Transactions], Flags]


class PgOutputDecoder:
    """Decodes one read of a slot, block by block. Only changes of one table and of wanted transactions are looked at."""

    def __init__(self, oid: int, wanted: Wanted, *, step: str) -> None:
        self._oid, self._wanted, self._step = oid, wanted, step
        self._relations: dict[int, TableRelation] = {}
        self._last, self._last_is_wanted = _NO_TRANSACTION, False
        self.strangers: set[int] = set()
        """Other tables of which wanted transactions had changes."""

    def relation(self, oid: int) -> TableRelation:
        """A table that was described."""
        return self._relations[oid]

    def decode(self, block: MessageBlock) -> Iterator[TableChanges | TableTruncation]:
        """What a block says about the table.

        Raises:
            StepFailed: (CDC-012) it is not of this protocol.
        """
        try:
            yield from self._decoded(block)
        except (struct.error, IndexError, KeyError, ValueError) as problem:
            msg = "the server sent something that is not of the protocol of logical replication that was asked for"
            hint = "report it with the version of the server; nothing was passed over"
            found = f"{type(problem).__name__}: {problem}"
            known = "pgoutput, version 1"
            raise StepFailed(msg, code="CDC-012", step=self._step, found=found, known=known, hint=hint) from None

    def _decoded(self, block: MessageBlock) -> Iterator[TableChanges | TableTruncation]:
        letters = block.letters
        if not np.isin(letters, _KNOWN).all():
            msg = f"messages {sorted({chr(letter) for letter in letters})}"
            raise ValueError(msg)
        transactions, number, wanted = self._begun(block, letters)
        is_change = np.isin(letters, (INSERT, UPDATE, DELETE)) & wanted[number]
        places = self._of_table(block, np.flatnonzero(is_change))
        first = 0
        for place in np.flatnonzero(np.isin(letters, (ord("R"), ord("T")))).tolist():
            is_told = letters[place] == ord("R") or (wanted[number[place]] and self._is_emptied(block.message(place)))
            if not is_told:
                continue
            behind = int(np.searchsorted(places, place))
            yield from self._changes(block, places[first:behind], transactions, number)
            first = behind
            if letters[place] == ord("R"):
                self._describe(block.message(place))
            else:
                yield TableTruncation(self._relations[self._oid])
        yield from self._changes(block, places[first:], transactions, number)

    def _begun(self, block: MessageBlock, letters: Bytes) -> tuple[Transactions, Numbers, Flags]:
        """The transactions of a block, the one that was open before it first; which message is of which; which are wanted."""
        is_begin = letters == ord("B")
        at = block.starts[is_begin] + 1
        begun = Transactions(
            number_at(block.data, at, 8),
            number_at(block.data, at + 8, 8) + _MICROSECONDS_TO_2000,
            number_at(block.data, at + 16, 4),
        )
        transactions = Transactions(*(np.concatenate(pair) for pair in zip(self._last, begun, strict=True)))
        wanted = np.concatenate([[self._last_is_wanted], self._wanted(begun)])
        self._last, self._last_is_wanted = transactions.take(np.array([-1])), bool(wanted[-1])
        number: Numbers = np.cumsum(is_begin)
        return transactions, number, wanted

    def _of_table(self, block: MessageBlock, places: Numbers) -> Numbers:
        oids = number_at(block.data, block.starts[places] + 1, 4)
        is_ours = oids == self._oid
        if not is_ours.all():
            self.strangers |= set(np.unique(oids[~is_ours]).tolist())
        ours: Numbers = places[is_ours]
        return ours

    def _describe(self, message: bytes) -> None:
        relation = described(message)
        self._relations[relation.oid] = relation

    def _is_emptied(self, message: bytes) -> bool:
        (count,) = struct.unpack_from(">I", message, 1)
        return self._oid in struct.unpack_from(f">{count}I", message, 6)

    def _changes(
        self, block: MessageBlock, places: Numbers, transactions: Transactions, number: Numbers
    ) -> Iterator[TableChanges]:
        if not len(places):
            return
        relation = self._relations[self._oid]
        count, starts, letters = len(relation.columns), block.starts[places], block.letters[places]
        marks, at = block.data[starts + 5], starts + 6
        is_whole, is_key = marks == ord("O"), marks == ord("K")
        has_old = is_whole | is_key
        old, at = _values(block.data, at, has_old, count)
        # Behind the old row of an update stands the mark of the new one.
        is_updated = has_old & (letters == UPDATE)
        marks = np.where(is_updated, block.data[np.where(is_updated, at, 0)], marks)
        new, at = _values(block.data, at + is_updated, marks == ord("N"), count)
        if ((at != block.ends[places]) | ((marks == ord("N")) == (letters == DELETE))).any():
            msg = f"changes that are not {count} columns long"
            raise ValueError(msg)
        of_change = transactions.take(number[places])
        yield TableChanges(relation, letters, block.lsns[places], of_change, old, has_old, is_whole, new)


def _values(data: Bytes, at: Numbers, is_there: Flags, columns: int) -> tuple[TupleValues, Numbers]:
    """The values of the tuples that begin there, and where those end; where no tuple is, values are null."""
    if is_there.any() and (number_at(data, at[is_there], 2) != columns).any():
        msg = f"tuples that have not {columns} columns"
        raise ValueError(msg)
    places = np.flatnonzero(is_there)
    marks = np.full((columns, len(at)), NULL, np.uint8)
    begins, sizes = np.zeros((columns, len(at)), np.int64), np.zeros((columns, len(at)), np.int64)
    here = at[places] + 2
    for column in range(columns):
        mark = data[here]
        is_text = mark == TEXT
        if not (is_text | (mark == NULL) | (mark == GAP)).all():
            msg = "values that are neither text nor null nor unchanged"
            raise ValueError(msg)
        size = np.zeros(len(here), np.int64)
        size[is_text] = number_at(data, here[is_text] + 1, 4)
        marks[column][places], begins[column][places], sizes[column][places] = mark, here + 5, size
        here = here + np.where(is_text, size + 5, 1)
    ends = at.copy()
    ends[places] = here
    return TupleValues(data, marks, begins, sizes), ends
