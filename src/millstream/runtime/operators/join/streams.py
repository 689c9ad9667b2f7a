"""Joins of two keyed streams: within bounds of event time (interval join), or for ever (regular join)."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

from millstream.graph.operations.join import Join
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, Settings
from millstream.runtime.operators.join.pairs import CHUNK, Gathering, JoinedRows
from millstream.runtime.operators.join.sides import Side, join_stores
from millstream.state.pages import NEVER, Due
from millstream.state.segment import Flags, Found, Segment, Times


class JoinOperator:
    """Each row meets the kept rows of the other side, and is then kept itself."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as rows come, and are not divided
        assert isinstance(node.operation, Join)
        self._node, self._operation, self._key_groups = node, node.operation, key_groups

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, rows that can no longer find a partner, rows after it."""
        return _StreamJoinEpoch(self._node, self._operation, work, self._key_groups).run()


class _StreamJoinEpoch:
    def __init__(self, node: StreamNode, operation: Join, work: EpochWork, key_groups: int) -> None:
        self._operation, self._work = operation, work
        self._sides = [
            Side(node, number, work, key_groups=key_groups, needs_time=operation.is_bounded) for number in (0, 1)
        ]
        self._out = JoinedRows(node, work)
        self._stays = (operation.how in {"left", "full"}, operation.how in {"right", "full"})
        """Which sides give rows that have no partner."""

    def run(self) -> Due:
        work, times = self._work, self._work.times
        self._take((work.before, work.other_before), times.before, BEFORE)
        self._give_up(times.watermark, BEFORE)
        self._take((work.after, work.other_after), times.watermark, AFTER)
        # Where a bound lies on the other side of zero, a row may come when its last chance has passed.
        self._give_up(times.watermark, AFTER)
        # A partner at the last chance itself is late once the watermark is there.
        clock = times.watermark + 1 if self._operation.is_bounded else times.now
        dues = [
            side.segments.flush(clock, attention=functools.partial(_first_unmatched, stays=self._stays[side.number]))
            for side in self._sides
        ]
        return Due(event=min(due.event for due in dues))

    def _take(self, tables: tuple[list[pa.Table], list[pa.Table]], watermark: int, phase: int) -> None:
        """New rows of the right meet kept ones of the left; new ones of the left meet kept and new ones of the right."""
        left, right = (self._arrived(side, tables[side.number], watermark, phase) for side in self._sides)
        if right is not None:
            self._meet(right, 1, phase)
            self._sides[1].segments.add(right)
        if left is not None:
            self._meet(left, 0, phase)
            self._sides[0].segments.add(left)

    def _arrived(self, side: Side, tables: list[pa.Table], watermark: int, phase: int) -> Segment | None:
        came = side.came(tables, lambda times: times <= watermark, phase)
        if came is None:
            return None
        rows, times = came
        usable = side.usable(rows)
        if usable is not None and not self._stays[side.number]:
            rows, times, usable = rows.filter(pa.array(usable)), times[usable], None
        return Segment.arrived(rows, side.codes(rows), times, self._ends(times, side.number), usable=usable)

    def _ends(self, times: Times, side: int) -> Times:
        """The last instant at which each row may find a partner: of event time, or of the clock."""
        operation = self._operation
        if operation.lower is not None and operation.upper is not None:
            return times + (operation.upper if side == 0 else -operation.lower)
        end = NEVER if operation.keep is None else self._work.times.now + operation.keep - 1
        return np.full(len(times), end, np.int64)

    def _meet(self, asking: Segment, side: int, phase: int) -> None:
        deciding = self._out.deciding

        def emit(mine: pa.RecordBatch, theirs: pa.RecordBatch, times: Times) -> Flags:
            left, right = (mine, theirs) if side == 0 else (theirs, mine)
            return self._out.pairs(left, right, times, phase, is_checked=deciding is not None)

        def check(mine: pa.RecordBatch, theirs: pa.RecordBatch) -> Flags:
            left, right = (mine, theirs) if side == 0 else (theirs, mine)
            return self._out.holding(left, right)

        gathering = Gathering(
            asking,
            emit,
            marks=(self._stays[side], self._stays[1 - side]),
            check=None if deciding is None else (check, deciding[side], deciding[1 - side]),
        )
        for pairs in self._sides[1 - side].segments.find(asking, CHUNK):
            gathering.add(self._in_time(pairs, asking, side))
        gathering.flush()

    def _in_time(self, pairs: Found, asking: Segment, side: int) -> Found:
        """The pairs that the bounds, or the time to live, leave."""
        operation, segment = self._operation, pairs.segment
        if operation.lower is not None and operation.upper is not None:
            ahead = segment.times[pairs.places] - asking.times[pairs.asking]
            ahead = ahead if side == 0 else -ahead
            holds = (ahead >= operation.lower) & (ahead <= operation.upper)
        elif operation.keep is not None:
            holds = segment.ends[pairs.places] >= self._work.times.now
        else:
            return pairs
        return pairs if holds.all() else Found(segment, pairs.asking[holds], pairs.places[holds])

    def _give_up(self, watermark: int, phase: int) -> None:
        """Emit the rows whose last chance has passed; they carry its time, so that no step behind finds them late."""
        for side in self._sides:
            if not self._stays[side.number]:
                continue
            # Segments that an earlier version wrote say a millisecond more than the last chance of their rows.
            for segment in side.segments.due(watermark + 1):
                places = np.flatnonzero(~segment.matched & (segment.ends <= watermark))
                if len(places):
                    times = np.maximum(segment.times[places], segment.ends[places])
                    self._out.alone(segment.take(places), side.number, times, phase)
                    segment.mark(places)


def _first_unmatched(segment: Segment, *, stays: bool) -> int:
    """When the first row without a partner has had its last chance."""
    open_ends = segment.ends[~segment.matched] if stays else segment.ends[:0]
    return int(open_ends.min()) if len(open_ends) else NEVER


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, Join)
    return {"within": [node.operation.lower, node.operation.upper] if node.operation.is_bounded else None}


# Joins compare keys by value and give the rows of both sides as they came, as Spark does.
JOIN = KeyedKind(takes=Join, operator=JoinOperator, stores=join_stores, settings=_settings, keeps_key_form=True)
