"""Windows that go row by row: sessions, reductions and window functions, kept as a list of open windows per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.api.process import TimeWindow
from millstream.graph.step import LATE, MAIN, Window
from millstream.graph.stream_graph import StreamNode
from millstream.graph.window import WindowSpec
from millstream.model.time import to_datetime
from millstream.runtime.accumulate_values import ValueAccumulators
from millstream.runtime.batch import Batch
from millstream.runtime.chain import as_mapping
from millstream.runtime.codecs import batch_to_rows
from millstream.runtime.entries import Entries, Entry
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.keyed import RowOutput, Turn, key_rows
from millstream.runtime.pages import Due
from millstream.runtime.policy import failure
from millstream.runtime.python_types import list_of, row_type, tuple_of
from millstream.runtime.step_state import Paging
from millstream.runtime.stored import Slot, stored_types
from millstream.runtime.window_grid import grid_of

OpenWindow = list[Any]
"""[start, end, content]: what the content is depends on how the window is closed."""


Assigner = Callable[[int], list[tuple[int, int]]]
"""Gives the windows that an instant belongs to, the oldest first."""


def assigner_of(window: WindowSpec) -> Assigner:
    """The windows of an instant; a session starts as the gap behind it."""
    if window.kind == "session":
        return lambda time: [(time, time + window.gap)]
    grid = grid_of(window)

    def windows_at(time: int) -> list[tuple[int, int]]:
        newest = grid.start_of(time)
        starts = [grid.later(newest, -number) for number in reversed(range(grid.span))]
        return [(start, grid.later(start, grid.span)) for start in starts]

    return windows_at


class Contents:
    """How a window's content is kept and closed: aggregates, a running reduction, or all rows for a function."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation, self._names = node, node.operation, node.input_schema.names
        self._row_type = row_type(node.input_schema)
        self.values: ValueAccumulators | None = None
        if node.operation.aggregates:
            fields = [node.outputs[MAIN][name] for name, _ in node.operation.aggregates]
            self.values = ValueAccumulators(node.operation.aggregates, node.expressions, fields, step=node.id)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """One slot with the list of open windows."""
        if self.values is not None:
            content = tuple_of(*self.values.state_types)
        else:
            content = self._row_type if self._operation.reduce is not None else list_of(self._row_type)
        return (Slot(name="windows", kind="windows", content=list_of(tuple_of(int, int, content))),)

    def opened(self, row: dict[str, Any], values: tuple[Any, ...]) -> Any:
        """The content of a window with one row."""
        if self.values is not None:
            content = self.values.empty()
            self.values.add(content, values)
            return content
        packed = tuple(row[name] for name in self._names)
        return packed if self._operation.reduce is not None else [packed]

    def merged(self, earlier: Any, later: Any) -> Any:
        """The content of two windows made one; `later` holds what came later."""
        if self.values is not None:
            content = [list(item) if isinstance(item, tuple) else item for item in earlier]
            self.values.merge(content, list(later))
            return content
        if self._operation.reduce is not None:
            return self._reduced(earlier, later)
        return [*earlier, *later]

    def _reduced(self, earlier: Any, later: Any) -> Any:
        assert self._operation.reduce is not None
        held, came = (dict(zip(self._names, packed, strict=True)) for packed in (earlier, later))
        made = called(self._node.id, came, self._operation.reduce.target, held, came)
        row = as_mapping(made)
        return tuple(row.get(name) for name in self._names)

    def closed(self, key: tuple[Any, ...], window: OpenWindow) -> Iterator[Any]:
        """The rows a window gives."""
        start, end, content = window
        if self.values is not None:
            row = dict(zip(self._node.keys, key, strict=True))
            row |= {"window_start": to_datetime(start), "window_end": to_datetime(end)}
            names = [name for name, _ in self._operation.aggregates]
            yield row | dict(zip(names, self.values.results(list(content)), strict=True))
        elif self._operation.reduce is not None:
            yield dict(zip(self._names, content, strict=True))
        else:
            assert self._operation.process is not None
            rows = [dict(zip(self._names, packed, strict=True)) for packed in content]
            named = dict(zip(self._node.keys, key, strict=True))
            yield from (
                called(self._node.id, named, self._operation.process.target, named, TimeWindow(start, end), rows) or ()
            )


def called(step: str, record: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call user code; a failure names the step, the user's line and the record."""
    try:
        made = function(*arguments)
        return list(made) if isinstance(made, Iterator) else made
    except Exception as problem:
        raise failure(step, record, problem) from problem


class RowWindowOperator:
    """Open windows per key, closed by event-time timers: one at the last instant, one at the end of the lateness."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation, self._window = node, node.operation, node.operation.window
        self._windows_at = assigner_of(node.operation.window)
        self._contents = Contents(node)
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, turn: Turn) -> Due:
        """Rows before the watermark, windows the watermark closes, rows after it."""
        entries = self._paging.entries(turn, self._node.uid, self._keys, stored_types(self._contents.slots))
        counts = turn.hands.count(self._node.id)
        bad = turn.hands.bad_records(self._node.id, "fail")
        out = RowOutput(MAIN, self._node.outputs[MAIN], bad, counts, turn.emit)
        self._rows(turn, turn.before, turn.times.before, entries, out, BEFORE)
        self._close(entries, out, turn.times.watermark)
        out.advance()
        self._rows(turn, turn.after, turn.times.watermark, entries, out, AFTER)
        out.flush()
        return entries.flush()

    def _rows(
        self, turn: Turn, tables: list[pa.Table], watermark: int, entries: Entries, out: RowOutput, phase: int
    ) -> None:
        counts = turn.hands.count(self._node.id)
        for batch, pieces in key_rows(tables, self._node.keys, entries):
            rows, times, values = _unpacked(self._node.id, batch, self._contents)
            late = [
                at
                for start, end, entry in pieces
                for at in range(start, end)
                if not self._add(entry, rows[at], times[at], values[at], watermark, out)
            ]
            counts.rows_in += batch.num_rows
            counts.late += len(late)
            counts.passed += batch.num_rows - len(late)
            if late:
                turn.emit(LATE, batch.take(np.array(late)), phase)

    def _add(self, entry: Entry, row: Any, time: int, values: tuple[Any, ...], watermark: int, out: RowOutput) -> bool:
        """Add a row to its windows; `False` when all of them are gone."""
        is_taken = False
        for start, end in self._windows_at(time):
            window = [start, end, self._contents.opened(row, values)]
            if self._window.kind == "session":
                window = self._joined(entry, window)
            if window[1] - 1 + self._operation.lateness <= watermark:
                continue
            is_taken = True
            self._put(entry, window, watermark)
            if window[1] - 1 <= watermark:
                self._emit(entry, window, out)
        return is_taken

    def _joined(self, entry: Entry, window: OpenWindow) -> OpenWindow:
        """A session made one with the sessions it touches; their content is set, not added again.

        Held sessions stand in the order of time, the row that joins them behind.
        """
        for other in sorted(entry.slots[0] or (), key=lambda held: held[0], reverse=True):
            if other[0] <= window[1] and window[0] <= other[1]:
                content = self._contents.merged(other[2], window[2])
                window = [min(other[0], window[0]), max(other[1], window[1]), content]
        return window

    def _put(self, entry: Entry, window: OpenWindow, watermark: int) -> None:
        held = [list(other) for other in entry.slots[0] or ()]
        if self._window.kind == "session":
            kept = [other for other in held if not (other[0] <= window[1] and window[0] <= other[1])]
            entry.slots[0] = [*kept, window]
        else:
            same = next((other for other in held if other[0] == window[0]), None)
            if same is not None:
                same[2] = window[2] = self._contents.merged(same[2], window[2])
            entry.slots[0] = held if same is not None else [*held, window]
        entry.event_timers = {at for other in entry.slots[0] for at in self._timers(other) if at > watermark}
        entry.is_dirty = True

    def _timers(self, window: OpenWindow) -> set[int]:
        last: int = window[1] - 1
        return {last, last + self._operation.lateness}

    def _close(self, entries: Entries, out: RowOutput, watermark: int) -> None:
        """Fire the windows that end by the watermark, in the order of their end; forget those past their lateness."""
        for share in entries.due_shares(event=watermark, processing=-1):
            self._close_share(share, out, watermark)

    def _close_share(self, due: list[Entry], out: RowOutput, watermark: int) -> None:
        firing: list[tuple[int, int, Entry, OpenWindow]] = []
        for number, entry in enumerate(due):
            held = [list(other) for other in entry.slots[0] or ()]
            firing += [
                (w[1], number, entry, w) for w in held if w[1] - 1 <= watermark and w[1] - 1 in entry.event_timers
            ]
            entry.slots[0] = [w for w in held if w[1] - 1 + self._operation.lateness > watermark] or None
            entry.event_timers = {at for other in entry.slots[0] or () for at in self._timers(other) if at > watermark}
            entry.is_dirty = True
        for _, _, entry, window in sorted(firing, key=lambda item: item[:2]):
            self._emit(entry, window, out)

    def _emit(self, entry: Entry, window: OpenWindow, out: RowOutput) -> None:
        for row in self._contents.closed(entry.key, window):
            out.add(row, window[1] - 1)


def _unpacked(step: str, batch: Batch, contents: Contents) -> tuple[list[Any], list[int], list[tuple[Any, ...]]]:
    rows = batch_to_rows(batch.rows)
    if batch.times is None or batch.times.null_count:
        raise failure(step, rows[0], "a row without event time reached a window")
    values = contents.values.inputs(batch.rows) if contents.values is not None else [()] * batch.num_rows
    return rows, batch.times.to_pylist(), values
