"""What windows with built-in aggregates give: key columns, the bounds of the window, and one column per aggregate."""

from __future__ import annotations

import pyarrow as pa

from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import TIME, from_table
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.window.grid import Times

_EMIT_ROWS = 131_072


class WindowResults:
    """Turns merged partial results, a row per key and window, into rows of the step."""

    def __init__(self, node: StreamNode, accumulators: Accumulators) -> None:
        self._node, self._accumulators = node, accumulators
        self._schema = node.outputs[MAIN].arrow

    def emit(
        self, merged: pa.Table, starts: Times, ends: Times, times: pa.ChunkedArray | None, work: EpochWork, phase: int
    ) -> None:
        """Emit the windows in the order of the table; `times` are the event times of the results, if they have any."""
        bounds = [pa.array(at * 1000).cast(pa.timestamp("us", tz="UTC")) for at in (starts, ends)]
        columns = [merged.column(key) for key in self._node.keys] + bounds + self._accumulators.results(merged)
        table = pa.table(columns, names=self._schema.names).cast(self._schema)
        work.ledger.count(self._node.id).rows_out += table.num_rows
        if times is not None:
            table = table.append_column(TIME, times)
        for start in range(0, table.num_rows, _EMIT_ROWS):
            work.emit(MAIN, from_table(table.slice(start, _EMIT_ROWS)), phase)
