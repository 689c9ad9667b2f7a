"""The near ends of edges: rows are packed by subtask, and sent when there is enough of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.records.batch import Batch, from_table
from millstream.records.canonical_keys import with_canonical
from millstream.records.codecs import batch_to_ipc
from millstream.records.key_groups import key_group, owner, stable_hash, stable_order
from millstream.runtime.exchange.cells import AFTER, BEFORE, Outbox


class Target(NamedTuple):
    """The far end of an edge."""

    port: int
    level: int
    parallelism: int
    key_groups: int


class Sender(Protocol):
    """The near end of an edge."""

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        ...

    def close(self) -> None:
        """Put everything still held into the outbox."""
        ...


Chooser = Callable[[Batch], npt.NDArray[np.int64] | int]
"""Gives the subtask of each row, or one subtask for all of them."""


class RowSender:
    """Packs rows by subtask; holds them until a payload is worth sending."""

    def __init__(self, target: Target, outbox: Outbox, choose: Chooser, payload_bytes: int) -> None:
        self._target, self._outbox, self._choose, self._limit = target, outbox, choose, payload_bytes
        self._held: list[list[Batch]] = [[], []]
        self._bytes = 0

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        if batch.num_rows == 0:
            return
        self._held[phase].append(batch)
        self._bytes += batch.rows.nbytes
        if self._bytes >= self._limit:
            self.close()

    def close(self) -> None:
        """Put everything still held into the outbox."""
        for phase in (BEFORE, AFTER):
            for batch in joined_rows(self._held[phase]):
                self._pack(batch, phase)
            self._held[phase] = []
        self._bytes = 0

    def _pack(self, batch: Batch, phase: int) -> None:
        for slot, part in split_by(batch, self._choose(batch), self._target.parallelism):
            self._outbox.add(slot, self._target.level, self._target.port, phase, batch_to_ipc(part.with_time_column()))


class CanonicalSender:
    """Brings floating-point keys into their one form before anything is combined, ranked or packed by them."""

    def __init__(self, sender: Sender, names: tuple[str, ...]) -> None:
        self._sender, self._names = sender, names

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        self._sender.send(Batch(with_canonical(batch.rows, self._names), batch.times), phase)

    def close(self) -> None:
        """Put everything still held into the outbox."""
        self._sender.close()


class BroadcastSender(RowSender):
    """Sends every row to every subtask; a payload is encoded once."""

    def __init__(self, target: Target, outbox: Outbox, payload_bytes: int) -> None:
        super().__init__(target, outbox, lambda _: 0, payload_bytes)

    def _pack(self, batch: Batch, phase: int) -> None:
        body = batch_to_ipc(batch.with_time_column())
        for slot in range(self._target.parallelism):
            self._outbox.add(slot, self._target.level, self._target.port, phase, body)


def split_by(batch: Batch, slots: npt.NDArray[np.int64] | int, parallelism: int) -> Iterator[tuple[int, Batch]]:
    """The rows of each subtask, in their order; subtasks without rows are left out."""
    if isinstance(slots, int):
        yield slots, batch
        return
    order = stable_order(slots, parallelism)
    sorted_batch = batch.take(order)
    ends = np.cumsum(np.bincount(slots, minlength=parallelism))
    start = 0
    for slot, end in enumerate(ends.tolist()):
        if end > start:
            yield slot, sorted_batch.slice(start, end - start)
        start = end


def by_key(keys: tuple[str, ...], target: Target) -> Chooser:
    """Rows with equal keys go to one subtask, the owner of their key group."""

    def choose(batch: Batch) -> npt.NDArray[np.int64] | int:
        if target.parallelism == 1:
            return 0
        hashes = stable_hash([batch.rows.column(key) for key in keys], rows=batch.num_rows)
        groups = key_group(hashes, target.key_groups)
        return owner(groups, target.key_groups, target.parallelism)

    return choose


def round_robin(target: Target, first: int) -> Chooser:
    """Rows are dealt out one by one; tasks start at different subtasks."""
    dealt = first

    def choose(batch: Batch) -> npt.NDArray[np.int64]:
        nonlocal dealt
        slots = (np.arange(batch.num_rows, dtype=np.int64) + dealt) % target.parallelism
        dealt = (dealt + batch.num_rows) % target.parallelism
        return slots

    return choose


def same_subtask(target: Target, task: int) -> Chooser:
    """All rows of a task go to one subtask: the order of a partition is kept."""
    return lambda _: task % target.parallelism


def joined_rows(batches: list[Batch]) -> list[Batch]:
    """One batch of all rows, or none when there is nothing to join."""
    if len(batches) < 2:
        return batches
    tables = [pa.Table.from_batches([batch.with_time_column()]) for batch in batches]
    # Behind a union some rows may have no event time; theirs is null then.
    return [from_table(pa.concat_tables(tables, promote_options="default"))]
