"""Joins by window: rows of both sides with equal keys meet when their window closes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from millstream.graph.operations.join import WindowJoin
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MIN_TIME
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, Settings
from millstream.runtime.operators.join.pairs import CHUNK, Gathering, JoinedRows
from millstream.runtime.operators.join.sides import Side, join_stores
from millstream.state.pages import NEVER, Due
from millstream.state.segment import Flags, Places, Segment, Times, hits

_MOST = 1 << 15
"""Windows that are closed at a time."""
_HASH = np.uint64((1 << 48) - 1)
_RANK = np.uint64(48)


class WindowJoinOperator:
    """Keeps rows until their windows are past their lateness; all pairs of a window are emitted when it closes.

    A row that comes for a window which has closed, within the allowed lateness, gives the pairs that it adds.
    """

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as rows come, and are not divided
        assert isinstance(node.operation, WindowJoin)
        self._node, self._operation, self._key_groups = node, node.operation, key_groups

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, windows the watermark closes, rows after it."""
        return _WindowJoinEpoch(self._node, self._operation, work, self._key_groups).run()


class _WindowJoinEpoch:
    def __init__(self, node: StreamNode, operation: WindowJoin, work: EpochWork, key_groups: int) -> None:
        self._window, self._lateness, self._work = operation.window, operation.lateness, work
        self._sides = [Side(node, number, work, key_groups=key_groups, needs_time=True) for number in (0, 1)]
        self._out = JoinedRows(node, work)
        self._stays = (operation.how in {"left", "full"}, operation.how in {"right", "full"})

    def run(self) -> Due:
        work, times = self._work, self._work.times
        self._take((work.before, work.other_before), times.before, BEFORE)
        if times.watermark > times.before:
            closing = [
                self._rows_in_windows(side, side.segments.due(times.watermark), times.before, times.watermark)
                for side in self._sides
            ]
            self._join(closing[0], closing[1], BEFORE, alone=self._stays)
        self._take((work.after, work.other_after), times.watermark, AFTER)
        dues = [side.segments.flush(times.watermark, attention=self._next_close) for side in self._sides]
        return Due(event=min(due.event for due in dues))

    def _take(self, tables: tuple[list[pa.Table], list[pa.Table]], watermark: int, phase: int) -> None:
        came = [self._arrived(side, tables[side.number], watermark, phase) for side in self._sides]
        if self._lateness and watermark > MIN_TIME:
            self._add_to_closed(came, watermark, phase)
        for side, segment in zip(self._sides, came, strict=True):
            if segment is not None:
                side.segments.add(segment)

    def _arrived(self, side: Side, tables: list[pa.Table], watermark: int, phase: int) -> Segment | None:
        came = side.came(tables, lambda times: self._ends(times) < watermark, phase)
        if came is None:
            return None
        rows, times = came
        usable = side.usable(rows)
        if usable is not None and not self._stays[side.number]:
            rows, times = rows.filter(pa.array(usable)), times[usable]
        return Segment.arrived(rows, side.codes(rows), times, self._ends(times))

    def _bins(self, times: Times) -> Times:
        window = self._window
        return np.floor_divide(times - window.offset, window.slide) * window.slide + window.offset

    def _ends(self, times: Times) -> Times:
        """The last instant before each row's last window is forgotten."""
        return self._bins(times) + self._window.size - 2 + self._lateness

    def _next_close(self, segment: Segment) -> int:
        """The last instant of the next window of any row; rows whose windows have all closed only wait to be forgotten."""
        window, watermark = self._window, self._work.times.watermark
        bins = self._bins(segment.times)
        first, last = bins + window.slide - 1, bins + window.size - 1
        passed = np.maximum(0, (watermark - first) // window.slide + 1) if watermark > MIN_TIME else 0
        following = first + passed * window.slide
        following = following[following <= last]
        return int(following.min()) if len(following) else NEVER

    def _rows_in_windows(self, side: Side, segments: Iterable[Segment], after: int, until: int) -> _WindowRows:
        """Rows, once for each of their windows whose last instant lies in (after, until]."""
        window, inside = self._window, _WindowRows(side)
        for segment in segments:
            newest = self._bins(segment.times) + window.size - 1
            for number in reversed(range(window.size // window.slide)):
                last = newest - number * window.slide
                places = np.flatnonzero((last > after) & (last <= until))
                if len(places):
                    inside.add(segment, places, last[places])
        return inside

    def _add_to_closed(self, came: list[Segment | None], watermark: int, phase: int) -> None:
        """The pairs that new rows add to windows which have closed, but are within the allowed lateness."""
        oldest = watermark - self._lateness
        new = [
            self._rows_in_windows(side, [] if segment is None else [segment], oldest, watermark)
            for side, segment in zip(self._sides, came, strict=True)
        ]
        if not any(len(each) for each in new):
            return
        known = []
        for side, asking in zip(self._sides, reversed(came), strict=True):
            touched = [] if asking is None else side.segments.of_groups(asking)
            known.append(self._rows_in_windows(side, touched, oldest, watermark))
        self._join(known[0], new[1], phase, alone=(False, False))
        # A new row is alone only if neither kept nor new ones of the other side belong to it.
        right = known[1].with_more(new[1])
        self._join(new[0], right, phase, alone=(self._stays[0], False))
        if self._stays[1]:
            self._join(known[0].with_more(new[0]), new[1], phase, alone=(False, True), pairs=False)

    def _join(
        self, left: _WindowRows, right: _WindowRows, phase: int, *, alone: tuple[bool, bool], pairs: bool = True
    ) -> None:
        """Emit the pairs of rows of one window and key, the oldest windows first, and rows without a partner."""
        lasts = np.unique(np.concatenate([left.lasts, right.lasts]))
        for start in range(0, len(lasts), _MOST):
            some = lasts[start : start + _MOST]
            sides = left.segment(some), right.segment(some)
            self._pair(sides[0], sides[1], phase, marks=alone, pairs=pairs)
            for number, segment in enumerate(sides):
                places = np.flatnonzero(~segment.matched)
                if alone[number] and len(places):
                    times = segment.times[places]
                    self._out.alone(segment.take(places), number, times, phase, self._bounds(times))

    def _pair(self, left: Segment, right: Segment, phase: int, *, marks: tuple[bool, bool], pairs: bool) -> None:
        def emit(one: pa.RecordBatch, other: pa.RecordBatch, times: Times) -> Flags:
            return self._out.pairs(one, other, times, phase, self._bounds(times), is_emitted=pairs)

        gathering = Gathering(left, emit, marks=marks)
        for some in hits(right, left, 0, len(left), CHUNK):
            gathering.add(some)
        gathering.flush()

    def _bounds(self, lasts: Times) -> list[pa.Array]:
        """Start and end of windows given by their last instants."""
        starts = lasts + 1 - self._window.size
        return [pa.array(each * 1000).cast(pa.timestamp("us", tz="UTC")) for each in (starts, lasts + 1)]


class _WindowRows:
    """Rows of one side by window; a row stands here once for each window."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._parts: list[tuple[Segment, Places]] = []
        self._lasts: list[Times] = []

    def __len__(self) -> int:
        return sum(map(len, self._lasts))

    def add(self, segment: Segment, places: Places, lasts: Times) -> None:
        """Add rows of a segment, with the last instants of their windows."""
        self._parts.append((segment, places))
        self._lasts.append(lasts)

    def with_more(self, other: _WindowRows) -> _WindowRows:
        """These rows and others behind them."""
        both = _WindowRows(self._side)
        both._parts, both._lasts = [*self._parts, *other._parts], [*self._lasts, *other._lasts]
        return both

    @property
    def lasts(self) -> Times:
        """The last instant of each row's window."""
        return np.concatenate([np.empty(0, np.int64), *self._lasts])

    def segment(self, lasts: Times) -> Segment:
        """The rows of these windows, sorted by window and key."""
        chosen = [
            (segment, places[inside], last[inside])
            for (segment, places), last in zip(self._parts, self._lasts, strict=True)
            if (inside := np.isin(last, lasts)).any()
        ]
        taken, places = _rows_once([(segment, places) for segment, places, _ in chosen], self._side.columns)
        mine = np.concatenate([np.empty(0, np.int64), *(last for _, _, last in chosen)])
        codes = np.concatenate([np.empty(0, np.uint64), *(s.codes[p] for s, p, _ in chosen)])
        ranked = np.searchsorted(lasts, mine).astype(np.uint64) << _RANK | codes & _HASH
        usable = self._side.usable(taken)
        return Segment.arrived(
            taken, ranked, mine, mine, places=places, usable=None if usable is None else usable[places]
        )


def _rows_once(parts: list[tuple[Segment, Places]], columns: pa.Schema) -> tuple[pa.RecordBatch, Places]:
    """The rows that occur, each once, and where each occurrence finds its own."""
    batches, numbers, done = [], [], 0
    by_segment: dict[int, tuple[Segment, list[Places]]] = {}
    for segment, places in parts:
        by_segment.setdefault(id(segment), (segment, []))[1].append(places)
    starts: dict[int, tuple[Places, int]] = {}
    for name, (segment, many) in by_segment.items():
        distinct = np.unique(np.concatenate(many))
        batches.append(segment.take(distinct))
        starts[name] = (distinct, done)
        done += len(distinct)
    for segment, places in parts:
        distinct, start = starts[id(segment)]
        numbers.append(np.searchsorted(distinct, places) + start)
    rows = pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=columns)
    return rows, np.concatenate([np.empty(0, np.int64), *numbers])


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, WindowJoin)
    return {"window": node.operation.window.stored}


WINDOW_JOIN = KeyedKind(
    takes=WindowJoin,
    operator=WindowJoinOperator,
    stores=join_stores,
    settings=_settings,
    keeps_key_form=True,
)
