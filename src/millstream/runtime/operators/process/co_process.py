"""Functions over two keyed streams: rows of both sides meet the state and timers of their key."""

from __future__ import annotations

import pyarrow as pa

from millstream.graph.operations.process import CoProcess
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.process.broadcast import takes_broadcast
from millstream.runtime.operators.process.operator import ProcessCalls, ProcessOperator, process_stores


class CoProcessOperator(ProcessOperator):
    """Runs one function of two inputs. Within a phase the rows of the left side come first."""

    def _rows(self, calls: ProcessCalls, rows: list[pa.Table], others: list[pa.Table], watermark: int) -> None:
        left, right = (edge.keys for edge in self._node.inputs)
        calls.rows(rows, watermark, keys=left, method="process_left")
        calls.rows(others, watermark, keys=right, method="process_right")


CO_PROCESS = KeyedKind(
    takes=CoProcess,
    when=lambda node: not takes_broadcast(node),
    operator=CoProcessOperator,
    stores=process_stores,
)
