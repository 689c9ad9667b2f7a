"""Rows that wait for the watermark, as Arrow columns: they become Python values only when they are matched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.graph.operations.rank import Order
from millstream.graph.step import LATE
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import TIME, from_table
from millstream.runtime.bad_records import failure
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.grouping import Numbers, end_of_pages, in_order_of_pages, key_codes
from millstream.state.pages import NEVER
from millstream.state.segment import INDEX, Places, Segment, Times, codes_of
from millstream.state.segments import Segments, index_uid
from millstream.state.slots import Store


def waiting_uid(node: StreamNode) -> str:
    """Under which name the rows that wait are kept."""
    return f"{node.uid}:waiting"


def waiting_stores(node: StreamNode) -> tuple[Store, ...]:
    """The rows that wait and their index; without event time no row waits."""
    if not node.event_time:
        return ()
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    keys, uid = node.input_schema.select(node.keys), waiting_uid(node)
    return (
        Store(uid=uid, content=waiting_columns(node), keys=keys),
        Store(uid=index_uid(uid), content=INDEX, keys=keys),
    )


def waiting_columns(node: StreamNode) -> pa.Schema:
    """The columns of a row; state does not care whether one may be null."""
    assert node.input_schema is not None
    return pa.schema([pa.field(field.name, field.type) for field in node.input_schema])


class KeyedRows(NamedTuple):
    """Rows side by side by key, in their order within a key."""

    rows: pa.RecordBatch
    times: Times
    starts: Places
    """Where each key begins."""

    def by_page(self, pages: Numbers) -> tuple[KeyedRows, Numbers]:
        """The keys in the order of their pages, and these."""
        places, starts, pages = in_order_of_pages(self.starts, self.rows.num_rows, pages)
        return KeyedRows(self.rows.take(pa.array(places)), self.times[places], starts), pages

    def part(self, first: int, end: int) -> KeyedRows:
        """Some of the keys, as a range of places in `starts`."""
        start = int(self.starts[first])
        stop = int(self.starts[end]) if end < len(self.starts) else self.rows.num_rows
        return KeyedRows(self.rows.slice(start, stop - start), self.times[start:stop], self.starts[first:end] - start)

    def chunks(self, limit: int, pages: Numbers, most_pages: int) -> Iterator[tuple[int, int]]:
        """The keys in pieces of about so many rows and pages at most, as ranges of places in `starts`; a key is not cut."""
        first, bounds = 0, np.r_[self.starts, self.rows.num_rows]
        begins = np.flatnonzero(np.r_[True, pages[1:] != pages[:-1]])
        while first < len(self.starts):
            end = end_of_pages(begins, first, most_pages, len(self.starts))
            end = min(end, int(np.searchsorted(bounds, bounds[first] + limit, "left")))
            yield first, end
            first = end


class WaitingRows:
    """The rows of one subtask that the watermark has not passed, for the length of one epoch."""

    def __init__(self, node: StreamNode, work: EpochWork, order: Order, key_groups: int) -> None:
        self._node, self._work, self._order, self._key_groups = node, work, order, key_groups
        self._columns = waiting_columns(node)
        self._segments = Segments(
            work.store, waiting_uid(node), self._columns, keys=node.keys, state_bytes=work.state_bytes
        )

    def add(self, tables: list[pa.Table], watermark: int, phase: int) -> None:
        """Put rows to those that wait; rows behind the watermark are late."""
        if not tables:
            return
        counts = self._work.ledger.count(self._node.id)
        table = pa.concat_tables(tables, promote_options="default")
        counts.rows_in += table.num_rows
        if TIME not in table.schema.names or table.column(TIME).null_count:
            raise failure(self._node.id, {}, "a row without event time reached a pattern")
        is_late = pc.less_equal(table.column(TIME), pa.scalar(watermark, pa.int64()))
        late = table.filter(is_late)
        if late.num_rows:
            counts.late += late.num_rows
            self._work.emit(LATE, from_table(late), phase)
            table = table.filter(pc.invert(is_late))
        counts.passed += table.num_rows
        if table.num_rows:
            batch = from_table(table)
            assert batch.times is not None, "rows without time were refused"
            rows = pa.RecordBatch.from_arrays(batch.rows.columns, schema=self._columns)
            times = batch.times.to_numpy(zero_copy_only=False)
            keys = [rows.column(key) for key in self._node.keys]
            codes = codes_of(keys, self._key_groups, rows=rows.num_rows)
            self._segments.add(Segment.arrived(rows, codes, times, times))

    def ready(self, watermark: int) -> KeyedRows | None:
        """Take the rows up to the watermark, in order."""
        taken = []
        for segment in self._segments.due(watermark):
            places = np.flatnonzero(~segment.matched & (segment.times <= watermark))
            if len(places):
                segment.mark(places)
                taken.append((segment.take(places), segment.times[places]))
        if not taken:
            return None
        rows = pa.concat_batches([rows for rows, _ in taken])
        return in_order(rows, np.concatenate([times for _, times in taken]), self._node.keys, self._order)

    def flush(self, watermark: int) -> int:
        """Write what waits; gives when the first row is due."""
        return self._segments.flush(watermark + 1, attention=_first_waiting).event


def in_order(rows: pa.RecordBatch, times: Times, keys: tuple[str, ...], order: Order) -> KeyedRows:
    """Rows by key, then time, then the columns given, null as the smallest; rows that are equal there stay as they came."""
    codes, _ = key_codes(pa.Table.from_batches([rows]), keys)
    ranks = [_ranks(rows.column(name), is_descending=is_descending) for name, is_descending in reversed(order)]
    places = np.lexsort((*ranks, times, codes))
    ordered = codes[places]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return KeyedRows(rows.take(pa.array(places)), times[places], starts)


def _ranks(column: pa.Array, *, is_descending: bool) -> Places:
    """Numbers in the order of a column's values; NaN is the largest."""
    if pa.types.is_integer(column.type) and not column.null_count:
        ranks = np.asarray(column)
    else:
        ranks = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
        ranks[np.asarray(column.is_null())] = 0
    # Unlike the negative, the complement of the smallest integer exists.
    return ~ranks if is_descending else ranks


def _first_waiting(segment: Segment) -> int:
    waiting = segment.times[~segment.matched]
    return int(waiting.min()) if len(waiting) else NEVER
