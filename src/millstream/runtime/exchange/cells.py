"""What travels between levels: cells, made by senders and unpacked in a fixed order by the input gate.

A cell is Arrow IPC bytes with a small head. The head's (task, sequence) decides the order at the gate, so the same epoch
plan gives the same rows in the same order whatever the shuffle did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

BEFORE, AFTER = 0, 1
"""Phases of an epoch: rows that were made before the watermark moved, and rows that came after it."""
PLAN_PORT = -1
"""Port of the cell that tells a subtask the epoch's plan."""
DRIVER = -1
"""Level of cells meant for the driver."""


class PayloadHead(msgspec.Struct, frozen=True, array_like=True, order=True):
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


class Outbox:
    """Cells a task has made and nobody has taken yet; numbers them in the order they were made."""

    def __init__(self, task: int) -> None:
        self.task = task
        self._cells: list[Cell] = []
        self._sequence = 0
        self.sent: dict[int, int] = {}
        """Bytes by port."""

    def add(self, slot: int, level: int, port: int, phase: int, body: bytes) -> None:
        """Append a payload."""
        head = msgspec.msgpack.encode(PayloadHead(port, phase, self.task, self._sequence))
        self._sequence += 1
        self.sent[port] = self.sent.get(port, 0) + len(body)
        self._cells.append(Cell(slot, level, head, body))

    def forward(self, cell: Cell) -> None:
        """Pass on a cell that is meant for a later level."""
        self._cells.append(cell)

    def drain(self) -> Iterator[Cell]:
        """Take what is there."""
        cells, self._cells = self._cells, []
        return iter(cells)
