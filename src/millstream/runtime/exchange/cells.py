"""How rows change subtask: senders pack them into cells, the input gate unpacks them in a fixed order.

A cell is Arrow IPC bytes with a small head. The head's (task, sequence) decides the order at the gate, so the same epoch
plan gives the same rows in the same order whatever the shuffle did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.records.batch import Batch, from_table
from millstream.records.canonical_keys import with_canonical
from millstream.records.codecs import batch_to_ipc, table_from_ipc
from millstream.records.key_groups import key_group, owner, stable_hash, stable_order

BEFORE, AFTER = 0, 1
"""Phases of an epoch: rows that were made before the watermark moved, and rows that came after it."""
PLAN_PORT = -1
"""Port of the cell that tells a subtask the epoch's plan."""
DRIVER = -1
"""Level of cells meant for the driver."""


class Head(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Where a payload belongs; the natural order of heads is the order of processing."""

    port: int
    phase: int
    task: int
    sequence: int


class Cell(NamedTuple):
    """What travels between levels."""

    slot: int
    level: int
    head: bytes
    body: bytes


class Target(NamedTuple):
    """The far end of an edge."""

    port: int
    level: int
    parallelism: int
    key_groups: int


class Outbox:
    """Cells a task has made and nobody has taken yet; numbers them in the order they were made."""

    def __init__(self, task: int) -> None:
        self.task = task
        self._cells: list[Cell] = []
        self._sequence = 0

    def add(self, slot: int, level: int, port: int, phase: int, body: bytes) -> None:
        """Append a payload."""
        head = msgspec.msgpack.encode(Head(port, phase, self.task, self._sequence))
        self._sequence += 1
        self._cells.append(Cell(slot, level, head, body))

    def forward(self, cell: Cell) -> None:
        """Pass on a cell that is meant for a later level."""
        self._cells.append(cell)

    def drain(self) -> Iterator[Cell]:
        """Take what is there."""
        cells, self._cells = self._cells, []
        return iter(cells)


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


class InputGate:
    """All cells of one subtask and epoch, sorted; the order in which they arrived does not matter."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        decoder = msgspec.msgpack.Decoder(Head)
        self._cells = sorted(((decoder.decode(cell.head), cell.body) for cell in cells), key=lambda pair: pair[0])

    def tables(self, port: int, phase: int) -> list[pa.Table]:
        """The payloads of one edge and phase, in order."""
        return [table_from_ipc(body) for head, body in self._cells if head.port == port and head.phase == phase]

    def batches(self, port: int, phase: int) -> Iterator[Batch]:
        """The rows of one edge and phase, in order."""
        return map(from_table, self.tables(port, phase))
