"""Windows that go row by row: sessions, reductions and window functions, kept as a list of open windows per key."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.step import LATE, MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import key_rows
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.window.choice import goes_row_by_row
from millstream.runtime.operators.window.contents import Came, Contents
from millstream.runtime.operators.window.open_windows import HeldWindow, OpenWindows, assigner_of
from millstream.runtime.operators.window.settings import window_settings
from millstream.state.entries import Entries, Entry
from millstream.state.pages import Due
from millstream.state.slots import Store, own_store


class _KeyArrivals(NamedTuple):
    """Rows of one key on their way into its windows."""

    entry: Entry
    held: OpenWindows
    watermark: int
    out: RowOutput


class RowWindowOperator:
    """Open windows per key, closed by event-time timers: one at the last instant, one at the end of the lateness."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._are_sessions = node.operation.window.kind == "session"
        self._windows_at = assigner_of(node.operation.window)
        self._contents = Contents(node)
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, windows the watermark closes, rows after it."""
        # What user code makes is checked where it is encoded, window by window.
        entries = self._paging.entries(work, self._node.uid, self._keys, [list[HeldWindow]], is_trusted=True)
        counts = work.ledger.count(self._node.id)
        bad = work.ledger.bad_records(self._node.id, None)
        out = RowOutput(MAIN, self._node.outputs[MAIN], bad, counts, work.emit)
        self._rows(work, work.before, work.times.before, entries, out, BEFORE)
        self._close(entries, out, work.times.watermark)
        out.advance()
        self._rows(work, work.after, work.times.watermark, entries, out, AFTER)
        out.flush()
        return entries.flush()

    def _rows(
        self, work: EpochWork, tables: list[pa.Table], watermark: int, entries: Entries, out: RowOutput, phase: int
    ) -> None:
        counts = work.ledger.count(self._node.id)
        for batch, pieces in key_rows(tables, self._node.keys, entries):
            came, late = self._contents.came(batch), list[int]()
            times = np.asarray(batch.times).tolist()
            for start, end, entry in pieces:
                adding = _KeyArrivals(entry, OpenWindows(entry.slots[0], self._contents.decoded), watermark, out)
                gone = [at for at in range(start, end) if not self._add(adding, came[at], times[at])]
                if len(gone) < end - start:
                    self._settle(adding)
                late += gone
            counts.rows_in += batch.num_rows
            counts.late += len(late)
            counts.passed += batch.num_rows - len(late)
            if late:
                work.emit(LATE, batch.take(np.array(late)), phase)

    def _add(self, adding: _KeyArrivals, came: Came, time: int) -> bool:
        """Add a row to its windows; `False` when all of them are gone."""
        add, is_taken = self._join if self._are_sessions else self._put, False
        for start, end in self._windows_at(time):
            window = add(adding, came, start, end)
            if window is None:
                continue
            is_taken = True
            if window.last <= adding.watermark:
                self._emit(adding.entry.key, window, adding.held.content_of(window), adding.out)
        return is_taken

    def _is_gone(self, end: int, watermark: int) -> bool:
        return end - 1 + self._operation.lateness <= watermark

    def _put(self, adding: _KeyArrivals, came: Came, start: int, end: int) -> HeldWindow | None:
        """The window with these bounds and one more row; `None` when it is gone."""
        if self._is_gone(end, adding.watermark):
            return None
        held = adding.held
        window = held.with_end(end)
        if window is None:
            return held.put(start, end, self._contents.opened(came))
        held.set_content(window, self._contents.added(held.content_of(window), came))
        return window

    def _join(self, adding: _KeyArrivals, came: Came, start: int, end: int) -> HeldWindow | None:
        """The session that a row makes with those it touches; `None` when it is gone.

        Held sessions stand in the order of time, the row that joins them behind.
        """
        held = adding.held
        touched = held.touched_by(start, end)
        if touched:
            start, end = min(start, touched[0].start), max(end, touched[-1].end)
        if self._is_gone(end, adding.watermark):
            return None
        if not touched:
            return held.put(start, end, self._contents.opened(came))
        content = self._contents.added(held.content_of(touched[-1]), came)
        for earlier in reversed(touched[:-1]):
            content = self._contents.merged(held.content_of(earlier), content)
        return held.put(start, end, content, instead_of=touched)

    def _settle(self, adding: _KeyArrivals) -> None:
        """Write windows to their entry, with the times at which it is due."""
        entry, held = adding.entry, adding.held
        held.encode(lambda content: self._contents.encoded(entry.key, content))
        entry.slots[0] = held.windows or None
        if self._are_sessions:
            # Those that became one are not due when they were.
            entry.event_timers = self._timers(held.windows, adding.watermark)
        else:
            entry.event_timers |= self._timers(held.opened, adding.watermark)
        entry.is_dirty = True

    def _timers(self, windows: list[HeldWindow], watermark: int) -> set[int]:
        lateness = self._operation.lateness
        timers = {window.end - 1 for window in windows}
        if lateness:
            timers |= {at + lateness for at in timers}
        return {at for at in timers if at > watermark}

    def _close(self, entries: Entries, out: RowOutput, watermark: int) -> None:
        """Fire the windows that end by the watermark, in the order of their end; forget those past their lateness."""
        for share in entries.due_shares(event=watermark, processing=-1):
            self._close_share(share, out, watermark)

    def _close_share(self, due: list[Entry], out: RowOutput, watermark: int) -> None:
        firing: list[tuple[int, int, Entry, HeldWindow]] = []
        for number, entry in enumerate(due):
            held: list[HeldWindow] = entry.slots[0] or []
            firing += [
                (w.end, number, entry, w) for w in held if w.end - 1 <= watermark and w.end - 1 in entry.event_timers
            ]
            entry.slots[0] = [w for w in held if not self._is_gone(w.end, watermark)] or None
            entry.event_timers = {at for at in entry.event_timers if at > watermark}
            entry.is_dirty = True
        for _, _, entry, window in sorted(firing, key=lambda item: item[:2]):
            self._emit(entry.key, window, self._contents.decoded(window.content), out)

    def _emit(self, key: tuple[Any, ...], window: HeldWindow, content: Any, out: RowOutput) -> None:
        for row in self._contents.closed(key, window, content):
            out.add(row, window.last)


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, Contents(node).slots)


ROW_WINDOW = KeyedKind(
    takes=Window,
    when=goes_row_by_row,
    operator=RowWindowOperator,
    stores=_stores,
    settings=window_settings,
)
