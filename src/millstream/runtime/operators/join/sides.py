"""One side of a join: what came of it, what is late, and what is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from millstream.graph.operations.join import LATE_RIGHT
from millstream.graph.step import LATE
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.model.time import MIN_TIME
from millstream.records.batch import Batch, from_table
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import failure
from millstream.runtime.operators.contract import EpochWork
from millstream.state.segment import INDEX, Codes, Flags, Times, codes_of
from millstream.state.segments import Segments, index_uid
from millstream.state.slots import Store

NAMES = ("left", "right")
_LATE = (LATE, LATE_RIGHT)


def join_stores(node: StreamNode) -> tuple[Store, ...]:
    """What a join keeps: for each side its rows and their index."""
    return tuple(
        Store(uid=uid, content=content, keys=_schema(node, side).select(node.inputs[side].keys))
        for side in (0, 1)
        for uid, content in (
            (side_uid(node, side), side_columns(node, side)),
            (index_uid(side_uid(node, side)), INDEX),
        )
    )


def side_uid(node: StreamNode, side: int) -> str:
    """Under which name the rows of a side are kept."""
    return f"{node.uid}:{NAMES[side]}"


def side_columns(node: StreamNode, side: int) -> pa.Schema:
    """The columns of a side; state does not care whether one may be null."""
    return pa.schema([pa.field(field.name, field.type) for field in _schema(node, side)])


def _schema(node: StreamNode, side: int) -> Schema:
    schema = node.input_schema if side == 0 else node.other_schema
    assert schema is not None, f"{node.id!r} takes two inputs"
    return schema


class Side:
    """A side of a join in one subtask, for the length of one epoch."""

    def __init__(self, node: StreamNode, number: int, work: EpochWork, *, key_groups: int, needs_time: bool) -> None:
        self._node, self.number, self._work = node, number, work
        self._keys, self.columns = node.inputs[number].keys, side_columns(node, number)
        self._key_groups, self._needs_time = key_groups, needs_time
        self.segments = Segments(work.store, side_uid(node, number), self.columns, state_bytes=work.state_bytes)

    def came(
        self, tables: list[pa.Table], late: Callable[[Times], Flags], phase: int, *, keeps_late: bool = False
    ) -> tuple[pa.RecordBatch, Times] | None:
        """The rows of a phase and their event times; late ones are shown as such, and kept where they still count."""
        if not tables:
            return None
        batch = from_table(pa.concat_tables(tables, promote_options="default"))
        counts = self._work.ledger.count(self._node.id)
        counts.rows_in += batch.num_rows
        times = self._times(batch)
        is_late = late(times) if self._needs_time else np.zeros(len(times), np.bool_)
        if is_late.any():
            self._work.emit(_LATE[self.number], batch.filter(pa.array(is_late)), phase)
            counts.late += int(is_late.sum())
            if not keeps_late:
                batch, times = batch.filter(pa.array(~is_late)), times[~is_late]
        counts.passed += int((~is_late).sum())
        rows = pa.RecordBatch.from_arrays(batch.rows.columns, schema=self.columns)
        return (rows, times) if batch.num_rows else None

    def codes(self, rows: pa.RecordBatch) -> Codes:
        """The code of each row's key."""
        return codes_of([rows.column(key) for key in self._keys], self._key_groups)

    def usable(self, rows: pa.RecordBatch) -> Flags | None:
        """Which rows have a key without nulls; `None`: all of them."""
        if not any(rows.column(key).null_count for key in self._keys):
            return None
        usable: Flags = np.ones(rows.num_rows, np.bool_)
        for key in self._keys:
            usable &= np.asarray(rows.column(key).is_valid())
        return usable

    def _times(self, batch: Batch) -> Times:
        if batch.times is None or batch.times.null_count:
            if self._needs_time:
                raise failure(self._node.id, batch_to_rows(batch.rows.slice(0, 1))[0], "a row has no event time")
            if batch.times is None:
                return np.full(batch.num_rows, MIN_TIME, np.int64)
        return np.asarray(batch.times.fill_null(MIN_TIME))
