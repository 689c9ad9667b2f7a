"""The keyed operator of patterns: rows wait for the watermark, are put in the order of time, and are matched per key."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import InvalidStep
from millstream.graph.match_expression import measures_of
from millstream.graph.pattern import PatternSpec
from millstream.graph.step import LATE, MAIN, TIMED_OUT, Pattern
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MAX_TIME
from millstream.runtime.batch import TIME, Batch, from_table
from millstream.runtime.codecs import batch_to_rows
from millstream.runtime.entries import Entries, Entry
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.keyed import CHUNK, RowOutput, Turn, key_rows
from millstream.runtime.pages import NEVER, Due, StepPages
from millstream.runtime.patterns.buffer import Event, Node, Row
from millstream.runtime.patterns.compile import Program
from millstream.runtime.patterns.nfa import Matcher
from millstream.runtime.patterns.results import FunctionResults, MeasureResults, Results
from millstream.runtime.policy import failure
from millstream.runtime.python_types import dict_of, list_of, row_type, tuple_of
from millstream.runtime.stored import Slot, stored_types

Waiting = tuple[int, Row]
"""The time of a row and its values."""
_WAITING, _PARTIAL = 0, 1


def pattern_slots(node: StreamNode) -> tuple[Slot, ...]:
    """Rows that wait for the watermark, and the partial matches of each pattern by its version."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    row = row_type(node.input_schema)
    saved = tuple_of(list_of(tuple_of(int, int, row)), list_of(tuple_of(int, int, int)), list_of(tuple_of(int, int)))
    return (
        Slot(name="waiting", kind="rows", content=list_of(tuple_of(int, row))),
        Slot(name="partial", kind="matches", content=dict_of(str, saved)),
    )


class PatternOperator:
    """Looks for one or more patterns in the rows of each key."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Pattern)
        assert node.input_schema is not None
        self._node, self._operation, self._rows = node, node.operation, node.input_schema
        self._keys = node.input_schema.select(node.keys)
        self._slots = stored_types(pattern_slots(node))
        self._key_groups, self._page_bytes = key_groups, page_bytes
        self._order = _order(node.operation.order_by, node.input_schema.names)
        self._measures = [
            measures_of(measures, node.operation.pattern, self._rows, self._keys, step=node.id)
            for measures in (node.operation.measures, node.operation.timed_out_measures)
        ]
        self._programs: list[Program] = []
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
        self._programs = [Program(pattern, self._rows, step=self._node.id) for pattern in patterns]

    def run(self, turn: Turn) -> Due:
        """Rows before the watermark, what the watermark makes ready, rows after it."""
        pages = StepPages(turn.store, self._node.uid)
        entries = Entries(
            pages,
            self._keys,
            self._slots,
            key_groups=self._key_groups,
            page_bytes=self._page_bytes,
            state_bytes=turn.state_bytes,
        )
        matching = _Matching(self._node, self._programs, self._order, self._results(turn), entries)
        if self._node.event_time:
            self._hold(turn, turn.before, turn.times.before, entries, BEFORE)
            matching.advance(turn.times.watermark)
            matching.pass_watermark()
            self._hold(turn, turn.after, turn.times.watermark, entries, AFTER)
        else:
            matching.expire(turn.times.now)
            self._arrived(turn, turn.before, entries, matching)
            matching.pass_watermark()
            self._arrived(turn, turn.after, entries, matching)
        matching.close()
        return entries.flush()

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

    def _hold(self, turn: Turn, tables: list[pa.Table], watermark: int, entries: Entries, phase: int) -> None:
        """Put rows to those that wait; rows behind the watermark are late."""
        counts = turn.hands.count(self._node.id)
        kept = []
        for table in tables:
            counts.rows_in += table.num_rows
            if TIME not in table.schema.names or table.column(TIME).null_count:
                raise failure(self._node.id, {}, "a row without event time reached a pattern")
            is_late = pc.less_equal(table.column(TIME), pa.scalar(watermark, pa.int64()))
            late = table.filter(is_late)
            if late.num_rows:
                counts.late += late.num_rows
                turn.emit(LATE, from_table(late), phase)
                table = table.filter(pc.invert(is_late))  # noqa: PLW2901
            counts.passed += table.num_rows
            kept.append(table)
        for batch, pieces in key_rows(kept, self._node.keys, entries):
            assert batch.times is not None, "rows without time were refused"
            rows = list(zip(batch.times.to_pylist(), _tuples(batch), strict=True))
            for start, end, entry in pieces:
                held = entry.slots[_WAITING]
                entry.slots[_WAITING] = rows[start:end] if held is None else [*held, *rows[start:end]]
                entry.event_timers.add(min(row[0] for row in rows[start:end]))
                entry.is_dirty = True

    def _arrived(self, turn: Turn, tables: list[pa.Table], entries: Entries, matching: _Matching) -> None:
        """Match rows without event time as they come, each at the time of the clock."""
        counts = turn.hands.count(self._node.id)
        for batch, pieces in key_rows(tables, self._node.keys, entries):
            counts.rows_in += batch.num_rows
            counts.passed += batch.num_rows
            rows = [(turn.times.now, row) for row in _tuples(batch)]
            matching.arrived([(entry, rows[start:end]) for start, end, entry in pieces], turn.times.now)


def _tuples(batch: Batch) -> list[Row]:
    return [tuple(row.values()) for row in batch_to_rows(batch.rows)]


def _order(columns: tuple[str, ...], names: tuple[str, ...]) -> Callable[[Waiting], Any]:
    """Rows go by time, then by the columns given, nulls first; rows that are equal there stay as they came."""
    if not columns:
        return operator.itemgetter(0)
    places = [names.index(column) for column in columns]

    def key(waiting: Waiting) -> Any:
        values = (waiting[1][place] for place in places)
        return waiting[0], *((value is not None, value) if value is not None else (False,) for value in values)

    return key


class _Matching:
    """The matching of one epoch."""

    def __init__(
        self,
        node: StreamNode,
        programs: list[Program],
        order: Callable[[Waiting], Any],
        results: dict[str, Results],
        entries: Entries,
    ) -> None:
        self._programs, self._order, self._results, self._entries = programs, order, results, entries
        self._is_timed = bool(node.event_time)
        for result in results.values():
            result.phase = BEFORE

    def advance(self, watermark: int) -> None:
        """Match the rows up to the watermark, key by key, and let time pass."""
        for share in self._entries.due_shares(event=watermark, processing=-MAX_TIME):
            self._advance_share(share, watermark)

    def _advance_share(self, due: list[Entry], watermark: int) -> None:
        pieces: list[tuple[Entry, list[Waiting]]] = []
        held = 0
        for entry in due:
            ready = self._ready(entry, watermark)
            pieces.append((entry, ready))
            held += len(ready)
            if held >= CHUNK:
                self._match(pieces, watermark)
                pieces, held = [], 0
        self._match(pieces, watermark)

    def expire(self, now: int) -> None:
        """Without event time: let the clock pass for keys with a deadline."""
        for share in self._entries.due_shares(event=-MAX_TIME, processing=now):
            self._match([(entry, []) for entry in share], now)

    def arrived(self, pieces: list[tuple[Entry, list[Waiting]]], now: int) -> None:
        """Without event time: match rows as they come."""
        self._match(pieces, now)

    def _ready(self, entry: Entry, watermark: int) -> list[Waiting]:
        waiting = entry.slots[_WAITING] or []
        ready = [row for row in waiting if row[0] <= watermark]
        entry.slots[_WAITING] = [row for row in waiting if row[0] > watermark] or None
        ready.sort(key=self._order)
        return ready

    def _match(self, pieces: list[tuple[Entry, list[Waiting]]], until: int) -> None:
        rows = [row for _, ready in pieces for _, row in ready]
        saved: list[dict[str, Any]] = [{} for _ in pieces]
        deadlines = [NEVER] * len(pieces)
        for program in self._programs:
            bits, cells = program.conditions.examine(rows) if rows else ([], [])
            at = 0
            for place, (entry, ready) in enumerate(pieces):
                end = at + len(ready)
                partial = (entry.slots[_PARTIAL] or {}).get(program.version)
                if partial is not None or any(bit & program.start_mask for bit in bits[at:end]):
                    matcher = self._matcher(program, entry, partial)
                    _feed(matcher, program, ready, bits[at:end], cells[at:end])
                    matcher.expire(until)
                    found = matcher.save()
                    if found is not None:
                        saved[place][program.version] = found
                        deadlines[place] = min(deadlines[place], matcher.deadline())
                at = end
        for (entry, _), kept, deadline in zip(pieces, saved, deadlines, strict=True):
            self._put(entry, kept, deadline)

    def _matcher(self, program: Program, entry: Entry, partial: Any) -> Matcher:
        key, is_timed = entry.key, self._is_timed
        main, timed_out = self._results[MAIN], self._results.get(TIMED_OUT)

        def found(node: Node, time: int) -> None:
            main.add(program, key, node, time if is_timed else None)

        def expired(node: Node, time: int) -> None:
            assert timed_out is not None, "called only with such an output"
            timed_out.add(program, key, node, time if is_timed else None)

        matcher = Matcher(program, found, expired if timed_out is not None else None)
        if partial is not None:
            matcher.load(partial)
        return matcher

    def _put(self, entry: Entry, kept: dict[str, Any], deadline: int) -> None:
        entry.slots[_PARTIAL] = kept or None
        waiting = entry.slots[_WAITING]
        if self._is_timed:
            first = min(deadline, min((row[0] for row in waiting), default=NEVER) if waiting else NEVER)
            entry.event_timers = {first} if first < NEVER else set()
        else:
            entry.processing_timers = {deadline} if deadline < NEVER else set()
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


def _feed(
    matcher: Matcher, program: Program, ready: list[Waiting], bits: list[int], cells: list[tuple[Any, ...]]
) -> None:
    """Give a key's rows to its matcher; a row that can neither begin a match nor meet a partial one is passed by."""
    number, start_mask, feed = matcher.next_number(), program.start_mask, matcher.feed
    for (time, row), known, values in zip(ready, bits, cells, strict=True):
        if matcher.runs or known & start_mask:
            feed(Event(number, time, row, known, values))
        number += 1
