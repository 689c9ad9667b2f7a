"""The far end of all edges into a subtask: cells are sorted and unpacked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
import pyarrow as pa

from millstream.records.batch import Batch, from_table
from millstream.records.codecs import table_from_ipc
from millstream.runtime.exchange.cells import Cell, PayloadHead


class InputGate:
    """All cells of one subtask and epoch, sorted; the order in which they arrived does not matter."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        decoder = msgspec.msgpack.Decoder(PayloadHead)
        self._cells = sorted(((decoder.decode(cell.head), cell.body) for cell in cells), key=lambda pair: pair[0])

    def received(self, ports: Collection[int]) -> int:
        """Bytes that came in by some ports."""
        return sum(len(body) for head, body in self._cells if head.port in ports)

    def tables(self, port: int, phase: int) -> list[pa.Table]:
        """The payloads of one edge and phase, in order."""
        return [table_from_ipc(body) for head, body in self._cells if head.port == port and head.phase == phase]

    def batches(self, port: int, phase: int) -> Iterator[Batch]:
        """The rows of one edge and phase, in order."""
        return map(from_table, self.tables(port, phase))
