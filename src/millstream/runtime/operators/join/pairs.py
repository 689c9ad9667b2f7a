"""Pairs of rows from the two sides of a join: made a bounded number at a time, checked, and turned into joined rows."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa

from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MIN_TIME
from millstream.records.batch import Batch
from millstream.runtime.expressions import Predicate, evaluated
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.join.keys import equal_keys, flags
from millstream.state.segment import Flags, Found, Places, Segment, Times

CHUNK = 131_072
"""Pairs that are made at a time."""
Names = list[str]
Extra = list[pa.Array]
"""Further columns of joined rows."""


class JoinedRows:
    """Turns rows of both sides into rows of the join, and emits those for which its condition holds."""

    def __init__(self, node: StreamNode, work: EpochWork) -> None:
        assert node.input_schema is not None
        assert node.other_schema is not None
        self._node, self._work = node, work
        self._schema = node.outputs[MAIN].arrow
        self._types = [schema.arrow.types for schema in (node.input_schema, node.other_schema)]
        self._keys = tuple(edge.keys for edge in node.inputs)
        self._where = Predicate(node.expressions[0][1]) if node.expressions else None
        self._given = _given_names(node)
        self.deciding = self._deciding(node.expressions[0][1].columns) if node.expressions else None
        """The columns of either side that a condition looks at, and the keys; `None` without a condition."""

    def _deciding(self, wanted: Collection[str]) -> tuple[Names, Names]:
        left, right = (
            [name for name, given in names.items() if given in wanted or name in keys]
            for names, keys in zip(self._given, self._keys, strict=True)
        )
        return left, right

    def holding(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Flags:
        """Which pairs belong together, by the columns that decide."""
        assert self._where is not None
        names = [
            given[name] for given, rows in zip(self._given, (left, right), strict=True) for name in rows.schema.names
        ]
        rows = pa.RecordBatch.from_arrays([*left.columns, *right.columns], names=names)
        return equal_keys(left, right, *self._keys) & flags(evaluated(self._node.id, self._where.mask, rows))

    def pairs(
        self,
        left: pa.RecordBatch,
        right: pa.RecordBatch,
        times: Times,
        phase: int,
        extra: Extra | None = None,
        *,
        is_emitted: bool = True,
        is_checked: bool = False,
    ) -> Flags:
        """Emit the pairs that belong together, unless they are only asked for; gives which do.

        Of pairs that were checked before, all do.
        """
        holds = np.ones(left.num_rows, np.bool_) if is_checked else equal_keys(left, right, *self._keys)
        rows = pa.RecordBatch.from_arrays([*left.columns, *right.columns, *(extra or ())], schema=self._schema)
        if self._where is not None and not is_checked:
            holds &= flags(evaluated(self._node.id, self._where.mask, rows))
        if not is_emitted:
            return holds
        if not holds.all():
            kept = pa.array(holds)
            rows, times = rows.filter(kept), times[holds]
        self._emit(rows, times, phase)
        return holds

    def alone(self, rows: pa.RecordBatch, side: int, times: Times, phase: int, extra: Extra | None = None) -> None:
        """Emit rows of one side that have no partner."""
        missing = [pa.nulls(rows.num_rows, kind) for kind in self._types[1 - side]]
        columns = [*rows.columns, *missing] if side == 0 else [*missing, *rows.columns]
        self._emit(pa.RecordBatch.from_arrays([*columns, *(extra or ())], schema=self._schema), times, phase)

    def _emit(self, rows: pa.RecordBatch, times: Times, phase: int) -> None:
        if rows.num_rows:
            self._work.ledger.count(self._node.id).rows_out += rows.num_rows
            self._work.emit(MAIN, Batch(rows, event_times(times)), phase)


def _given_names(node: StreamNode) -> tuple[dict[str, str], dict[str, str]]:
    """The name of each column of either side in joined rows, which have those of the left side first."""
    assert node.input_schema is not None
    assert node.other_schema is not None
    left, joined = node.input_schema.names, node.outputs[MAIN].names
    return dict(zip(left, joined, strict=False)), dict(zip(node.other_schema.names, joined[len(left) :], strict=False))


def event_times(times: Times) -> pa.Int64Array | None:
    """Times of a segment as those of a batch: rows without one have null, and none at all gives `None`."""
    has_none = times == MIN_TIME
    if not has_none.any():
        return pa.array(times)
    return None if has_none.all() else pa.array(times, mask=has_none)


Check = Callable[[pa.RecordBatch, pa.RecordBatch], Flags]
"""Takes the deciding columns of rows that asked and of rows they met; gives which belong together."""
EmitPairs = Callable[[pa.RecordBatch, pa.RecordBatch, Times], Flags]
"""Takes rows that asked, rows they met and the times of the pairs; gives which belong together."""


class Gathering:
    """Collects pairs of many segments until they are worth a batch; marks rows that found a partner, where a side asks for it."""

    def __init__(
        self,
        asking: Segment,
        emit: EmitPairs,
        *,
        marks: tuple[bool, bool],
        check: tuple[Check, Names, Names] | None = None,
    ) -> None:
        self._asking, self._emit, self._check = asking, emit, check
        self._marks_asking, self._marks_found = marks
        self._found: list[Found] = []
        self._count = 0

    def add(self, pairs: Found) -> None:
        """Take pairs that may belong together."""
        if len(pairs.places):
            self._found.append(pairs)
            self._count += len(pairs.places)
            if self._count >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Make rows of what is held, in the order of the asking rows and of the age of those they met."""
        if not self._found:
            return
        pairs, self._found, self._count = self._found, [], 0
        if self._check is not None:
            pairs = self._checked(pairs, *self._check)
        if not pairs:
            return
        asking = np.concatenate([each.asking for each in pairs])
        times = np.concatenate([each.segment.times[each.places] for each in pairs])
        rows = pa.concat_batches([each.segment.take(each.places) for each in pairs])
        order: Places | None = None
        if len(pairs) > 1 and (np.diff(asking) < 0).any():
            order = np.argsort(asking, kind="stable")
            asking, times, rows = asking[order], times[order], rows.take(pa.array(order))
        holds = self._emit(self._asking.take(asking), rows, np.maximum(self._asking.times[asking], times))
        self._mark(pairs, asking, holds, order)

    def _checked(self, pairs: list[Found], check: Check, mine: Names, theirs: Names) -> list[Found]:
        """The pairs that belong together: few columns tell, so that whole rows are made of those pairs alone."""
        asking = self._asking.take(np.concatenate([each.asking for each in pairs]), mine)
        holds = check(asking, pa.concat_batches([each.segment.take(each.places, theirs) for each in pairs]))
        if holds.all():
            return pairs
        kept, start = [], 0
        for segment, places, others in ((each.segment, each.asking, each.places) for each in pairs):
            here = holds[start : start + len(places)]
            start += len(places)
            if here.any():
                kept.append(Found(segment, places[here], others[here]))
        return kept

    def _mark(self, pairs: list[Found], asking: Places, holds: Flags, order: Places | None) -> None:
        if self._marks_asking:
            self._asking.mark(asking[holds])
        if not self._marks_found:
            return
        kept = np.flatnonzero(holds) if order is None else np.sort(order[holds])
        start = 0
        for each in pairs:
            end = start + len(each.places)
            first, last = np.searchsorted(kept, (start, end))
            each.segment.mark(each.places[kept[first:last] - start])
            start = end
