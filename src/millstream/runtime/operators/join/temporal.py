"""Temporal joins: each row of the left stream with the version of its key that was valid when the row happened."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

from millstream.graph.operations.join import TemporalJoin
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.join.keys import equal_keys
from millstream.runtime.operators.join.pairs import CHUNK, JoinedRows
from millstream.runtime.operators.join.sides import Side, join_stores
from millstream.state.pages import NEVER, Due
from millstream.state.segment import Codes, Flags, Places, Segment, Times

_NONE = -1
"""The place of a version that does not exist."""


class TemporalJoinOperator:
    """Left rows wait until the watermark has reached them, because a version may come late; then they meet theirs.

    A version is valid from its event time until that of the next one of its key. One that comes late is shown as such, since
    rows have met an older one instead of it, and is valid for the rows to come. Those that no row to come can ask for are
    forgotten when segments are merged.
    """

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as rows come, and are not divided
        assert isinstance(node.operation, TemporalJoin)
        self._node, self._operation, self._key_groups = node, node.operation, key_groups

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, rows that it has passed, rows after it."""
        return _TemporalJoinEpoch(self._node, self._operation, work, self._key_groups).run()


class _TemporalJoinEpoch:
    def __init__(self, node: StreamNode, operation: TemporalJoin, work: EpochWork, key_groups: int) -> None:
        self._work, self._is_outer = work, operation.how == "left"
        left, right = node.inputs
        self._keys = left.keys, right.keys
        self._left, self._right = (
            Side(node, number, work, key_groups=key_groups, needs_time=True) for number in (0, 1)
        )
        self._out = JoinedRows(node, work)

    def run(self) -> Due:
        work, times = self._work, self._work.times
        self._take(work.before, work.other_before, times.before, BEFORE)
        self._resolve(times.watermark)
        self._take(work.after, work.other_after, times.watermark, AFTER)
        kept = functools.partial(_current, watermark=times.watermark, keys=self._keys[1])
        self._right.segments.flush(times.watermark, attention=lambda _: NEVER, kept=kept)
        due = self._left.segments.flush(times.watermark + 1, attention=_first_waiting)
        return Due(event=due.event)

    def _take(self, left: list[pa.Table], right: list[pa.Table], watermark: int, phase: int) -> None:
        for side, tables in ((self._left, left), (self._right, right)):
            came = side.came(tables, lambda times: times <= watermark, phase, keeps_late=side is self._right)
            if came is None:
                continue
            rows, times = came
            usable = side.usable(rows)
            if usable is not None and not (side is self._left and self._is_outer):
                rows, times = rows.filter(pa.array(usable)), times[usable]
            ends = times if side is self._left else np.full(len(times), NEVER, np.int64)
            side.segments.add(Segment.arrived(rows, side.codes(rows), times, ends))

    def _resolve(self, watermark: int) -> None:
        """Rows that the watermark has reached, in the order of time."""
        waiting = []
        # Segments that an earlier version wrote say a millisecond more than the time of their first row.
        for segment in self._left.segments.due(watermark + 1):
            places = np.flatnonzero(~segment.matched & (segment.times <= watermark))
            if len(places):
                segment.mark(places)
                waiting.append((segment, places))
        if not waiting:
            return
        times = np.concatenate([segment.times[places] for segment, places in waiting])
        codes = np.concatenate([segment.codes[places] for segment, places in waiting])
        order = np.argsort(times, kind="stable")
        rows = pa.concat_batches([segment.take(places) for segment, places in waiting]).take(pa.array(order))
        versions = _Versions(self._right, codes)
        for start in range(0, len(order), CHUNK):
            some = order[start : start + CHUNK]
            self._emit(rows.slice(start, CHUNK), codes[some], times[some], versions)

    def _emit(self, rows: pa.RecordBatch, codes: Codes, times: Times, versions: _Versions) -> None:
        places = versions.places(rows, codes, times, self._keys)
        known = np.flatnonzero(places != _NONE)
        if len(known) < len(places) and self._is_outer:
            missing = np.flatnonzero(places == _NONE)
            self._out.alone(rows.take(pa.array(missing)), 0, times[missing], BEFORE)
        if len(known):
            self._out.pairs(rows.take(pa.array(known)), versions.take(places[known]), times[known], BEFORE)


class _Versions:
    """The versions of some keys, sorted by key and time; those of one instant in the order they came."""

    def __init__(self, side: Side, codes: Codes) -> None:
        wanted = np.unique(codes)
        asking = Segment(wanted)
        parts = [(s, np.flatnonzero(np.isin(s.codes, wanted))) for s in side.segments.of_groups(asking)]
        parts = [(segment, places) for segment, places in parts if len(places)]
        self._rows = [segment.take(places) for segment, places in parts]
        codes = np.concatenate([np.empty(0, np.uint64), *(s.codes[p] for s, p in parts)])
        times = np.concatenate([np.empty(0, np.int64), *(s.times[p] for s, p in parts)])
        self._order = np.lexsort((times, codes))
        self._codes, self._times = codes[self._order], times[self._order]
        self._instants = np.unique(times)
        self._ranked = self._ranks(self._codes, self._times)

    def take(self, places: Places) -> pa.RecordBatch:
        """Versions by their places."""
        if len(self._rows) > 1:
            self._rows = [pa.concat_batches(self._rows)]
        return self._rows[0].take(pa.array(self._order[places]))

    def places(
        self, rows: pa.RecordBatch, codes: Codes, times: Times, keys: tuple[tuple[str, ...], tuple[str, ...]]
    ) -> Places:
        """The place of the newest version of each row's key that is not newer than the row."""
        if not self._rows:
            return np.full(len(codes), _NONE, np.int64)
        first = np.searchsorted(self._codes, codes, "left")
        has_any = self._codes[np.minimum(first, len(self._codes) - 1)] == codes
        newest = np.searchsorted(self._ranked, self._ranks(codes, times), "right") - 1
        newest = np.where(has_any & (newest >= first), newest, _NONE)
        known = np.flatnonzero(newest != _NONE)
        is_same = equal_keys(rows.take(pa.array(known)), self.take(newest[known]), *keys)
        for place in known[~is_same].tolist():
            newest[place] = self._older(rows.slice(place, 1), int(first[place]), int(newest[place]), keys)
        return newest

    def _ranks(self, codes: Codes, times: Times) -> Places:
        """Numbers in the order of (code, time)."""
        # A time between two known instants ranks with the earlier one: it asks for the same version.
        instants = np.searchsorted(self._instants, times, "right")
        return np.searchsorted(self._codes, codes, "left") * (len(self._instants) + 1) + instants

    def _older(self, row: pa.RecordBatch, first: int, last: int, keys: tuple[tuple[str, ...], tuple[str, ...]]) -> int:
        """Where another key has the same code: the newest version of the row's own key."""
        for place in range(last, first - 1, -1):
            if equal_keys(row, self.take(np.array([place])), *keys)[0]:
                return place
        return _NONE


def _first_waiting(segment: Segment) -> int:
    waiting = segment.times[~segment.matched]
    return int(waiting.min()) if len(waiting) else NEVER


def _current(segment: Segment, *, watermark: int, keys: tuple[str, ...]) -> Flags:
    """Which versions a row behind the watermark may still ask for: not those that a later one has replaced by then."""
    if len(segment) < 2:
        return np.ones(len(segment), np.bool_)
    order = np.lexsort((segment.times, segment.codes))
    rows = segment.take(order)
    is_same = equal_keys(rows.slice(0, len(segment) - 1), rows.slice(1), keys, keys)
    is_replaced = is_same & (segment.times[order][1:] <= watermark)
    kept: Flags = np.ones(len(segment), np.bool_)
    kept[order[:-1]] = ~is_replaced
    return kept


TEMPORAL_JOIN = KeyedKind(takes=TemporalJoin, operator=TemporalJoinOperator, stores=join_stores, keeps_key_form=True)
