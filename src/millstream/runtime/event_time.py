"""What an event-time step does with a batch: it gives rows their times, and tells the task what moves the watermark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.stream_graph import StreamNode
from millstream.graph.watermark import EventTime
from millstream.runtime.batch import Batch, event_times
from millstream.runtime.codecs import batch_to_rows
from millstream.runtime.expressions import Predicate
from millstream.runtime.policy import failure

if TYPE_CHECKING:
    from millstream.runtime.chain import Hands

MarkOf = Callable[[pa.RecordBatch, pa.Int64Array], int | None]
"""The mark that the rows of a batch carry, from the rows and their times."""


class Timing:
    """An event-time step, compiled."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, EventTime)
        self._step, self._column = node.id, node.operation.column
        self._mark_of = _mark_of(node, node.operation)

    def timed(self, batch: Batch, hands: Hands) -> Batch:
        """The rows with their event times; a null among them stops the job."""
        times = event_times(batch.rows.column(self._column))
        if times.null_count:
            place = int(np.flatnonzero(np.asarray(times.is_null()))[0])
            row = batch_to_rows(batch.rows.slice(place, 1))[0]
            raise failure(self._step, row, f"event time column {self._column!r} is null")
        if len(times):
            mark = None if self._mark_of is None else self._mark_of(batch.rows, times)
            hands.saw_times(self._step, int(np.asarray(times).max()), rows=len(times), mark=mark)
        return Batch(batch.rows, times)


def _mark_of(node: StreamNode, operation: EventTime) -> MarkOf | None:
    if operation.function is not None:
        return _asked(node.id, operation.function.target)
    spec = operation.watermark
    if spec is None or spec.kind != "punctuated":
        return None
    return _punctuated(Predicate(node.expressions[0][1]), spec.column)


def _punctuated(predicate: Predicate, column: str | None) -> MarkOf:
    def mark_of(rows: pa.RecordBatch, times: pa.Int64Array) -> int | None:
        carried = times if column is None else event_times(rows.column(column))
        marks = pc.drop_null(carried.filter(predicate.mask(rows)))
        return int(np.asarray(marks).max()) if len(marks) else None

    return mark_of


def _asked(step: str, generator: Any) -> MarkOf:
    def mark_of(rows: pa.RecordBatch, times: pa.Int64Array) -> int | None:
        try:
            mark = generator.on_batch(rows, np.asarray(times))
        except Exception as problem:
            raise failure(step, f"a batch of {rows.num_rows} rows", problem) from problem
        if mark is None:
            return None
        if isinstance(mark, int | np.integer) and not isinstance(mark, bool):
            return int(mark)
        raise failure(step, f"a batch of {rows.num_rows} rows", f"on_batch returned {mark!r}, not a whole number")

    return mark_of
