"""Pairs of rows from the two sides of a join: made a bounded number at a time, checked, and turned into joined rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MIN_TIME
from millstream.runtime.batch import Batch
from millstream.runtime.chain import evaluated
from millstream.runtime.expressions import Predicate
from millstream.runtime.joins.keys import equal_keys, flags
from millstream.runtime.keyed import Turn
from millstream.runtime.segment import Flags, Found, Places, Segment, Times

CHUNK = 131_072
"""Pairs that are made at a time."""
Extra = list[pa.Array]
"""Further columns of joined rows."""


class JoinedRows:
    """Turns rows of both sides into rows of the join, and emits those for which its condition holds."""

    def __init__(self, node: StreamNode, turn: Turn) -> None:
        assert node.input_schema is not None
        assert node.other_schema is not None
        self._node, self._turn = node, turn
        self._schema = node.outputs[MAIN].arrow
        self._types = [schema.arrow.types for schema in (node.input_schema, node.other_schema)]
        self._keys = tuple(edge.keys for edge in node.inputs)
        self._where = Predicate(node.expressions[0][1]) if node.expressions else None

    def pairs(
        self,
        left: pa.RecordBatch,
        right: pa.RecordBatch,
        times: Times,
        phase: int,
        extra: Extra | None = None,
        *,
        is_emitted: bool = True,
    ) -> Flags:
        """Emit the pairs that belong together, unless they are only asked for; gives which do."""
        holds = equal_keys(left, right, *self._keys)
        rows = pa.RecordBatch.from_arrays([*left.columns, *right.columns, *(extra or ())], schema=self._schema)
        if self._where is not None:
            holds &= flags(evaluated(self._node.id, self._where.mask, rows))
        if not is_emitted:
            return holds
        if not holds.all():
            kept = pa.array(holds)
            rows, times = rows.filter(kept), times[holds]
        self._emit(rows, times, phase)
        return holds

    def alone(self, rows: pa.RecordBatch, side: int, times: Times, phase: int, extra: Extra | None = None) -> None:
        """Emit rows of one side that have no partner."""
        missing = [pa.nulls(rows.num_rows, kind) for kind in self._types[1 - side]]
        columns = [*rows.columns, *missing] if side == 0 else [*missing, *rows.columns]
        self._emit(pa.RecordBatch.from_arrays([*columns, *(extra or ())], schema=self._schema), times, phase)

    def _emit(self, rows: pa.RecordBatch, times: Times, phase: int) -> None:
        if rows.num_rows:
            self._turn.hands.count(self._node.id).rows_out += rows.num_rows
            self._turn.emit(MAIN, Batch(rows, event_times(times)), phase)


def event_times(times: Times) -> pa.Int64Array | None:
    """Times of a segment as those of a batch: rows without one have null, and none at all gives `None`."""
    has_none = times == MIN_TIME
    if not has_none.any():
        return pa.array(times)
    return None if has_none.all() else pa.array(times, mask=has_none)


EmitPairs = Callable[[pa.RecordBatch, pa.RecordBatch, Times], Flags]
"""Takes rows that asked, rows they met and the times of the pairs; gives which belong together."""


class Gathering:
    """Collects pairs of many segments until they are worth a batch; marks rows that found a partner, where a side asks for it."""

    def __init__(self, asking: Segment, emit: EmitPairs, *, marks: tuple[bool, bool]) -> None:
        self._asking, self._emit = asking, emit
        self._marks_asking, self._marks_found = marks
        self._found: list[Found] = []
        self._count = 0

    def add(self, found: Found) -> None:
        """Take pairs that may belong together."""
        if len(found.places):
            self._found.append(found)
            self._count += len(found.places)
            if self._count >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Make rows of what is held, in the order of the asking rows and of the age of those they met."""
        if not self._found:
            return
        found, self._found, self._count = self._found, [], 0
        asking = np.concatenate([each.asking for each in found])
        times = np.concatenate([each.segment.times[each.places] for each in found])
        rows = pa.concat_batches([each.segment.take(each.places) for each in found])
        order: Places | None = None
        if len(found) > 1 and (np.diff(asking) < 0).any():
            order = np.argsort(asking, kind="stable")
            asking, times, rows = asking[order], times[order], rows.take(pa.array(order))
        holds = self._emit(self._asking.take(asking), rows, np.maximum(self._asking.times[asking], times))
        self._mark(found, asking, holds, order)

    def _mark(self, found: list[Found], asking: Places, holds: Flags, order: Places | None) -> None:
        if self._marks_asking:
            self._asking.mark(asking[holds])
        if not self._marks_found:
            return
        kept = np.flatnonzero(holds) if order is None else np.sort(order[holds])
        start = 0
        for each in found:
            end = start + len(each.places)
            first, last = np.searchsorted(kept, (start, end))
            each.segment.mark(each.places[kept[first:last] - start])
            start = end
