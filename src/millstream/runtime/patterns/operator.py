"""The keyed operator of patterns: rows wait for the watermark, are put in the order of time, and are matched per key."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.match_expression import measures_of
from millstream.graph.pattern import PatternSpec
from millstream.graph.step import MAIN, TIMED_OUT, Pattern
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MAX_TIME
from millstream.runtime.batch import from_table
from millstream.runtime.codecs import batch_to_tuples
from millstream.runtime.entries import Entries, Entry
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.keyed import CHUNK, RowOutput, Turn
from millstream.runtime.pages import NEVER, Due, StepPages
from millstream.runtime.patterns.compile import Program
from millstream.runtime.patterns.matching import KeyMatcher, Matched, key_matcher
from millstream.runtime.patterns.results import FunctionResults, MeasureResults, Results
from millstream.runtime.patterns.waiting import KeyedRows, WaitingRows, in_order, waiting_stores
from millstream.runtime.python_types import dict_of, list_of, row_type, tuple_of
from millstream.runtime.stored import Slot, Store, stored_types

_PARTIAL = 0


def pattern_slots(node: StreamNode) -> tuple[Slot, ...]:
    """The partial matches of each pattern by its version."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    row = row_type(node.input_schema)
    saved = tuple_of(list_of(tuple_of(int, int, row)), list_of(tuple_of(int, int, int)), list_of(tuple_of(int, int)))
    return (Slot(name="partial", kind="matches", content=dict_of(str, saved)),)


def pattern_stores(node: StreamNode) -> tuple[Store, ...]:
    """Partial matches per key, and rows that wait for the watermark."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    keys = node.input_schema.select(node.keys)
    return (Store(uid=node.uid, content=pattern_slots(node), keys=keys), *waiting_stores(node))


class Sought(NamedTuple):
    """A pattern that is looked for."""

    program: Program
    matcher: KeyMatcher


class PatternOperator:
    """Looks for one or more patterns in the rows of each key."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Pattern)
        assert node.input_schema is not None
        self._node, self._operation, self._rows = node, node.operation, node.input_schema
        self._keys = node.input_schema.select(node.keys)
        self._slots = stored_types(pattern_slots(node))
        self._key_groups, self._page_bytes = key_groups, page_bytes
        self._measures = [
            measures_of(measures, node.operation.pattern, self._rows, self._keys, step=node.id)
            for measures in (node.operation.measures, node.operation.timed_out_measures)
        ]
        self._sought: list[Sought] = []
        self.replace([node.operation.pattern])

    def replace(self, patterns: Sequence[PatternSpec]) -> None:
        """Look for these patterns from the next epoch on.

        Partial matches of a pattern that is built of the same stages go on under its new conditions; those of patterns that
        are gone or built otherwise are dropped. Rows that still wait for the watermark are tried on the new patterns.
        """
        names = [pattern.name for pattern in patterns]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            msg = "patterns share a name"
            raise InvalidStep(msg, code="STEP-100", step=self._node.id, found=", ".join(doubled), hint="rename one")
        programs = [Program(pattern, self._rows, step=self._node.id) for pattern in patterns]
        is_kept = TIMED_OUT in self._node.outputs
        self._sought = [
            Sought(program, key_matcher(program, self._rows, step=self._node.id, keeps_expired=is_kept))
            for program in programs
        ]

    def run(self, turn: Turn) -> Due:
        """Rows before the watermark, what the watermark makes ready, rows after it."""
        pages = StepPages(turn.store, self._node.uid)
        entries = Entries(
            pages, self._keys, self._slots, key_groups=self._key_groups, page_bytes=self._page_bytes, is_trusted=True
        )
        matching = Matching(self._node, self._sought, self._results(turn), entries)
        if not self._node.event_time:
            matching.expire(turn.times.now)
            self._arrived(turn, turn.before, matching)
            matching.pass_watermark()
            self._arrived(turn, turn.after, matching)
            matching.close()
            return entries.flush()
        waiting = WaitingRows(self._node, turn, self._operation.order_by, self._key_groups)
        waiting.add(turn.before, turn.times.before, BEFORE)
        matching.advance(waiting.ready(turn.times.watermark), turn.times.watermark)
        matching.pass_watermark()
        waiting.add(turn.after, turn.times.watermark, AFTER)
        matching.close()
        due = entries.flush()
        return Due(min(due.event, waiting.flush(turn.times.watermark)), due.processing, due.expiry)

    def _results(self, turn: Turn) -> dict[str, Results]:
        operation = self._operation
        functions = {MAIN: operation.function, TIMED_OUT: operation.timed_out}
        counts = turn.hands.count(self._node.id)
        bad = turn.hands.bad_records(self._node.id, "fail")
        found: dict[str, Results] = {}
        for output, measures in zip((MAIN, TIMED_OUT), self._measures, strict=True):
            function, schema = functions[output], self._node.outputs.get(output)
            if schema is None:
                continue
            if function is None:
                found[output] = MeasureResults(
                    measures, self._keys, self._rows, (output, schema), turn.emit, counts, step=self._node.id
                )
            else:
                out = RowOutput(output, schema, bad, counts, turn.emit)
                found[output] = FunctionResults(function.target, self._node.keys, self._rows, out, self._node.id)
        return found

    def _arrived(self, turn: Turn, tables: list[pa.Table], matching: Matching) -> None:
        """Match rows without event time as they come, each at the time of the clock."""
        if not tables:
            return
        counts = turn.hands.count(self._node.id)
        rows = from_table(pa.concat_tables(tables, promote_options="default")).rows
        counts.rows_in += rows.num_rows
        counts.passed += rows.num_rows
        if rows.num_rows:
            times = np.full(rows.num_rows, turn.times.now, np.int64)
            matching.match(in_order(rows, times, self._node.keys, ()), turn.times.now)


class Matching:
    """The matching of one epoch."""

    def __init__(
        self, node: StreamNode, sought: Sequence[Sought], results: dict[str, Results], entries: Entries
    ) -> None:
        self._keys, self._sought, self._results, self._entries = node.keys, sought, results, entries
        self._is_timed = bool(node.event_time)
        for result in results.values():
            result.phase = BEFORE

    def advance(self, ready: KeyedRows | None, watermark: int) -> None:
        """Match the rows up to the watermark, key by key, and let time pass."""
        if ready is not None:
            self.match(ready, watermark)
        for entry in self._entries.due(event=watermark, processing=-MAX_TIME):
            self._match_key(entry.key, entry, [()] * len(self._sought), watermark)

    def expire(self, now: int) -> None:
        """Without event time: let the clock pass for keys with a deadline."""
        for entry in self._entries.due(event=-MAX_TIME, processing=now):
            self._match_key(entry.key, entry, [()] * len(self._sought), now)

    def match(self, ready: KeyedRows, until: int) -> None:
        """Match rows that are in order, and let time pass for their keys."""
        bounds = np.r_[ready.starts, ready.rows.num_rows]
        for first, end in ready.chunks(CHUNK):
            start, stop = int(bounds[first]), int(bounds[end])
            rows = ready.rows.slice(start, stop - start)
            with _without_collection():
                self._match_chunk(rows, ready.times[start:stop], bounds[first : end + 1] - start, until)

    def _match_chunk(self, batch: pa.RecordBatch, times: Any, bounds: Any, until: int) -> None:
        """Match some keys; one that has neither a partial match nor a row that can begin one is passed by."""
        events, begins = [], []
        rows, instants = batch_to_tuples(batch), times.tolist()
        for program, _ in self._sought:
            bits, cells = program.conditions.examine(batch)
            events.append(list(zip(range(len(rows)), instants, rows, bits.tolist(), cells, strict=True)))
            begins.append(np.logical_or.reduceat((bits & program.start_mask) != 0, bounds[:-1]))
        may_begin = np.logical_or.reduce(begins).tolist() if begins else [False] * (len(bounds) - 1)
        firsts = pa.array(bounds[:-1])
        columns = [batch.column(key).take(firsts) for key in self._keys]
        names = batch_to_tuples(pa.RecordBatch.from_arrays(columns, names=list(self._keys)))
        ends = bounds.tolist()
        for place, (key, page) in enumerate(zip(names, self._entries.places(columns), strict=True)):
            entry = self._entries.existing(key, page)
            if entry is None and not may_begin[place]:
                continue
            start, stop = ends[place], ends[place + 1]
            kept = self._match_key(key, entry, [rows[start:stop] for rows in events], until)
            if entry is None and kept is not None:
                self._put(self._entries.entry(key, page), *kept)

    def _match_key(
        self, key: tuple[Any, ...], entry: Entry | None, events: Sequence[Sequence[Any]], until: int
    ) -> tuple[dict[str, Any], int] | None:
        """Match the rows of one key; gives what is to be kept of a key that had nothing."""
        held = (entry.slots[_PARTIAL] or {}) if entry is not None else {}
        kept: dict[str, Any] = {}
        deadline = NEVER
        for (program, matcher), rows in zip(self._sought, events, strict=True):
            made = matcher.match(held.get(program.version), rows, until)
            if made.found or made.expired:
                self._give(program, matcher, key, made)
            if made.saved is not None:
                kept[program.version] = made.saved
                deadline = min(deadline, made.deadline)
        if entry is not None:
            self._put(entry, kept, deadline)
        return (kept, deadline) if kept else None

    def _give(self, program: Program, matcher: KeyMatcher, key: tuple[Any, ...], made: Matched) -> None:
        is_timed = self._is_timed
        for output, matches in ((MAIN, made.found), (TIMED_OUT, made.expired)):
            for tail, time in matches:
                self._results[output].add(program, key, matcher.rows(tail), time if is_timed else None)

    def _put(self, entry: Entry, kept: dict[str, Any], deadline: int) -> None:
        entry.slots[_PARTIAL] = kept or None
        timers = {deadline} if deadline < NEVER else set()
        if self._is_timed:
            entry.event_timers = timers
        else:
            entry.processing_timers = timers
        entry.is_dirty = True

    def pass_watermark(self) -> None:
        """The watermark has moved: what follows belongs behind it."""
        for result in self._results.values():
            result.flush()
            result.phase = AFTER

    def close(self) -> None:
        """Hand on what is still held."""
        for result in self._results.values():
            result.flush()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Rows and chains make no cycles, and to look for some among them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
