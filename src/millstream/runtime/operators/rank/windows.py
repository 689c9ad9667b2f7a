"""The best rows of each key and window: rows wait until their windows have passed, and are ranked then. Columnar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from millstream.graph.operations.rank import WindowRank
from millstream.graph.step import LATE, MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.model.time import MIN_TIME
from millstream.records.batch import TIME, Batch, from_table
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import failure
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, Settings
from millstream.runtime.operators.grouping import key_codes
from millstream.runtime.operators.rank.order import KeyRanking
from millstream.runtime.operators.window.grid import grid_of
from millstream.state.pages import NEVER, Due
from millstream.state.segment import INDEX, Segment, Times, codes_of
from millstream.state.segments import Segments, index_uid
from millstream.state.slots import Store

_START, _END = HIDDEN + "start", HIDDEN + "end"
_EMIT_ROWS = 131_072
_SHARE = 1 << 20
"""About so many rows, one for each of their windows, are ranked at a time."""


def waiting_columns(node: StreamNode) -> pa.Schema:
    """What is stored: the rows, which wait for their windows."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    return pa.schema([pa.field(field.name, field.type) for field in node.input_schema])


def waiting_stores(node: StreamNode) -> tuple[Store, ...]:
    """The rows and their index."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    keys, uid = node.input_schema.select(node.keys), waiting_uid(node)
    return (
        Store(uid=uid, content=waiting_columns(node), keys=keys),
        Store(uid=index_uid(uid), content=INDEX, keys=keys),
    )


def waiting_uid(node: StreamNode) -> str:
    """Under which name the rows are kept."""
    return f"{node.uid}:waiting"


class WindowRankOperator:
    """Keeps rows until their windows are past their lateness; the best of a window are emitted when it has passed.

    A row that comes for a window which has passed, within the allowed lateness, lets that window be said again.
    """

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as rows come, and are not divided
        assert isinstance(node.operation, WindowRank)
        self._node, self._operation, self._key_groups = node, node.operation, key_groups
        self._grid = grid_of(node.operation.window)
        self._ranking = KeyRanking(node, _END)
        self._stored = waiting_columns(node)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, windows the watermark passes, rows after it."""
        kept = Segments(work.store, waiting_uid(self._node), self._stored, state_bytes=work.state_bytes)
        before, now = work.times.before, work.times.watermark
        self._take(work.before, kept, work, before, BEFORE)
        if now > before:
            closing = list(kept.due(now))
            for after, until in self._shares(closing, before, now):
                self._emit(self._in_windows(closing, after, until), work, BEFORE)
        self._take(work.after, kept, work, now, AFTER)
        return kept.flush(now, attention=lambda segment: self._next_end(segment, now))

    def _take(self, tables: list[pa.Table], kept: Segments, work: EpochWork, watermark: int, phase: int) -> None:
        if not tables:
            return
        batch = self._on_time(from_table(pa.concat_tables(tables, promote_options="default")), work, watermark, phase)
        if batch.num_rows == 0:
            return
        rows, times = pa.RecordBatch.from_arrays(batch.rows.columns, schema=self._stored), np.asarray(batch.times)
        codes = codes_of([rows.column(key) for key in self._node.keys], self._key_groups)
        came = Segment.arrived(rows, codes, times, self._forgotten(times))
        if self._operation.lateness and watermark > MIN_TIME:
            self._say_again(came, kept, work, watermark, phase)
        kept.add(came)

    def _on_time(self, batch: Batch, work: EpochWork, watermark: int, phase: int) -> Batch:
        """The rows of which a window is not gone; the others are late."""
        if batch.times is None or batch.times.null_count:
            first = batch_to_rows(batch.rows.slice(0, 1))[0]
            raise failure(self._node.id, first, "a row without event time reached a window")
        counts = work.ledger.count(self._node.id)
        is_late = self._forgotten(np.asarray(batch.times)) < watermark
        counts.rows_in += batch.num_rows
        counts.late += int(is_late.sum())
        counts.passed += batch.num_rows - int(is_late.sum())
        if not is_late.any():
            return batch
        work.emit(LATE, batch.filter(pa.array(is_late)), phase)
        return batch.filter(pa.array(~is_late))

    def _forgotten(self, times: Times) -> Times:
        """The last instant before each row's last window is gone."""
        return self._grid.last_ends(self._grid.starts_of(times)) - 2 + self._operation.lateness

    def _next_end(self, segment: Segment, watermark: int) -> int:
        """The last instant of the next window of any row; rows whose windows have all passed only wait to be forgotten."""
        ends = self._grid.next_ends(self._grid.starts_of(segment.times), watermark)
        ends = ends[ends > watermark]
        return int(ends.min()) if len(ends) else NEVER

    def _say_again(self, came: Segment, kept: Segments, work: EpochWork, watermark: int, phase: int) -> None:
        """Windows that have passed, are within the allowed lateness, and got rows."""
        oldest = watermark - self._operation.lateness
        new = self._in_windows([came], oldest, watermark)
        if new.num_rows == 0:
            return
        known = self._in_windows(kept.of_groups(came), oldest, watermark)
        both = pa.concat_tables([known, new])
        codes, _ = key_codes(both, self._ranking.keys)
        self._emit(both.filter(pa.array(np.isin(codes, codes[known.num_rows :]))), work, phase)

    def _shares(self, segments: list[Segment], after: int, until: int) -> Iterator[tuple[int, int]]:
        """Spans of time that hold the last instants of windows with a bounded number of rows, or of one window."""
        passed = [
            ends[(ends - 1 > after) & (ends - 1 <= until)] - 1
            for segment in segments
            for _, ends in self._grid.windows_of(segment.times)
        ]
        lasts, counts = np.unique(np.concatenate([np.empty(0, np.int64), *passed]), return_counts=True)
        numbers = np.cumsum(counts) // _SHARE
        for last in lasts[np.flatnonzero(np.diff(numbers, append=-1))].tolist():
            yield after, last
            after = last

    def _in_windows(self, segments: Iterable[Segment], after: int, until: int) -> pa.Table:
        """Rows in the order they came, once for each of their windows whose last instant lies in (after, until]."""
        columns = [*self._stored, pa.field(_START, pa.int64()), pa.field(_END, pa.int64())]
        tables = [pa.schema(columns).empty_table()]
        for segment in segments:
            parts = []
            for starts, ends in self._grid.windows_of(segment.times):
                places = np.flatnonzero((ends - 1 > after) & (ends - 1 <= until))
                parts.append((places, starts[places], ends[places]))
            places, starts, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
            if not len(places):
                continue
            order = np.argsort(places, kind="stable")
            bounds = [pa.array(starts[order]), pa.array(ends[order])]
            rows = segment.take(places[order])
            tables.append(pa.table([*rows.columns, *bounds], schema=pa.schema(columns)))
        return pa.concat_tables(tables).combine_chunks()

    def _emit(self, rows: pa.Table, work: EpochWork, phase: int) -> None:
        """The best rows of each window, the oldest windows first, by key and rank."""
        if rows.num_rows == 0:
            return
        ranked = self._ranking.of(rows)
        stays = ranked.ranks <= self._ranking.n
        places, ranks = ranked.order[stays], ranked.ranks[stays]
        ends: Times = np.asarray(rows.column(_END).combine_chunks())[places]
        order = np.argsort(ends, kind="stable")
        best = rows.take(pa.array(places[order]))
        bounds = [_timestamps(best.column(name)) for name in (_START, _END)]
        columns = [*(best.column(name) for name in self._stored.names), *bounds]
        if self._operation.rank is not None:
            columns.append(pa.array(ranks[order]))
        schema = self._node.outputs[MAIN].arrow
        table = pa.table(columns, names=schema.names).cast(schema).append_column(TIME, pa.array(ends[order] - 1))
        work.ledger.count(self._node.id).rows_out += table.num_rows
        for start in range(0, table.num_rows, _EMIT_ROWS):
            work.emit(MAIN, from_table(table.slice(start, _EMIT_ROWS).combine_chunks()), phase)


def _timestamps(column: pa.ChunkedArray) -> pa.Array:
    millis: Times = np.asarray(column.combine_chunks())
    return pa.array(millis * 1000).cast(pa.timestamp("us", tz="UTC"))


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, WindowRank)
    return {"window": node.operation.window.stored}


WINDOW_RANK = KeyedKind(takes=WindowRank, operator=WindowRankOperator, stores=waiting_stores, settings=_settings)
