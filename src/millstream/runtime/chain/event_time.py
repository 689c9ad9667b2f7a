"""What an event-time step does with a batch: it gives rows their times, and tells the task what moves the watermark.

A row whose time is null, or lies where nothing can have happened, is a bad record: the step's policy decides about it. So is one
that carries such an instant as a mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.graph.operations.watermark import EventTime
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import FIRST_EVENT, LAST_EVENT, event_time_problem
from millstream.records.batch import Batch, event_times
from millstream.records.codecs import shown_rows
from millstream.runtime.bad_records import USER_PROBLEMS, generator_failure
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.expressions import Predicate
from millstream.state.segment import Flags


class Timing:
    """An event-time step, compiled."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, EventTime)
        self._step, self._operation = node.id, node.operation
        self._predicate = Predicate(node.expressions[0][1]) if node.expressions else None
        self._carried = None if node.operation.watermark is None else node.operation.watermark.column

    def timed(self, batch: Batch, ledger: Ledger) -> Batch:
        """The good rows, with their event times."""
        counts = ledger.count(self._step)
        counts.rows_in += batch.num_rows
        times = event_times(batch.rows.column(self._operation.column))
        batch = Batch(batch.rows, times)
        if times.null_count or not _are_events(times):
            batch = self._without(batch, _nulls(times) | _others(times), self._operation.column, times, ledger)
        batch, mark = self._marked(batch, ledger)
        counts.passed += batch.num_rows
        counts.rows_out += batch.num_rows
        if batch.num_rows:
            ledger.saw_times(self._step, int(np.asarray(batch.times).max()), rows=batch.num_rows, mark=mark)
        return batch

    def _without(self, batch: Batch, bad: Flags, column: str, times: pa.Int64Array, ledger: Ledger) -> Batch:
        """The rows that are not bad; the others go where the policy says."""
        records, places = ledger.bad_records(self._step, self._operation.on_error), np.flatnonzero(bad)
        bad_times = times.take(pa.array(places)).to_pylist()
        for row, time in zip(shown_rows(batch.rows.take(pa.array(places))), bad_times, strict=True):
            problem = "null is no event time" if time is None else event_time_problem(time)
            records.refuse(row, f"column {column!r}: {problem}")
        return batch.filter(pa.array(~bad))

    def _marked(self, batch: Batch, ledger: Ledger) -> tuple[Batch, int | None]:
        """The rows, without those that carry a bad mark, and the newest mark."""
        if batch.num_rows and self._operation.function is not None:
            return batch, _generated_mark(self._step, self._operation.function.target, batch)
        if not batch.num_rows or self._predicate is None:
            return batch, None
        says = self._predicate.mask(batch.rows).to_numpy(zero_copy_only=False)
        marks: pa.Int64Array = batch.times
        if self._carried is not None:
            marks = event_times(batch.rows.column(self._carried))
            says = says & ~_nulls(marks)
            if (bad := says & _others(marks)).any():
                batch, says = self._without(batch, bad, self._carried, marks, ledger), says[~bad]
                marks = marks.filter(pa.array(~bad))
        said = marks.filter(pa.array(says))
        return batch, int(np.asarray(said).max()) if len(said) else None


def _are_events(times: pa.Int64Array) -> bool:
    values = np.asarray(times)
    return not len(values) or (int(values.min()) >= FIRST_EVENT and int(values.max()) <= LAST_EVENT)


def _nulls(times: pa.Int64Array) -> Flags:
    nulls: Flags = times.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _others(times: pa.Int64Array) -> Flags:
    """Where times are given at which nothing can have happened."""
    values = times.fill_null(0).to_numpy(zero_copy_only=False)
    beyond: Flags = (values < FIRST_EVENT) | (values > LAST_EVENT)
    return beyond


def _generated_mark(step: str, generator: Any, batch: Batch) -> int | None:
    """What a generator of the user's says of a batch."""
    about = f"a batch of {batch.num_rows} rows"
    try:
        mark = generator.on_batch(batch.rows, np.asarray(batch.times))
    except USER_PROBLEMS as problem:
        raise generator_failure(step, "on_batch", problem, about) from problem
    if mark is None:
        return None
    if isinstance(mark, int | np.integer) and not isinstance(mark, bool):
        return int(mark)
    raise generator_failure(step, "on_batch", f"on_batch returned {mark!r}, not a whole number", about)
