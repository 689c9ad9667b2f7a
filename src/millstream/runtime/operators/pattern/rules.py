"""The keyed operator of patterns that a broadcast stream brings: every subtask holds the whole set of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from millstream.graph.operations.rank import instant_order
from millstream.graph.operations.rules import RULE, VERSION, Patterns
from millstream.graph.patterns.match_expression import Measures
from millstream.graph.step import MAIN, TIMED_OUT
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Field, Schema
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, row_settings
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.pattern.buffer import Row
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.conditions import Refuse
from millstream.runtime.operators.pattern.epoch import PARTIAL, Matching, Sought, match_arrived, without_collection
from millstream.runtime.operators.pattern.operator import pattern_slots, pattern_stores
from millstream.runtime.operators.pattern.results import MeasureResults
from millstream.runtime.operators.pattern.rule_set import Active, RuleBook, RuleSet, rule_slots
from millstream.runtime.operators.pattern.waiting import WaitingRows
from millstream.runtime.operators.process.broadcast import ALL_KEYS, SCOPE, SHARED_PAGE, broadcast_uid
from millstream.state.entries import Entries
from millstream.state.pages import Due
from millstream.state.slots import Store, stored_types


def rule_stores(node: StreamNode) -> tuple[Store, ...]:
    """Partial matches per key, rows that wait, and the patterns themselves."""
    shared = Store(uid=broadcast_uid(node), content=rule_slots(), keys=SCOPE, is_broadcast=True)
    return (*pattern_stores(node), shared)


class RulesOperator:
    """Looks for all patterns that are in force."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Patterns)
        assert node.input_schema is not None
        self._node, self._rows = node, node.input_schema
        self._order = instant_order(node.operation.order_by, self._rows)
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)
        self._book = RuleBook(node)

    @without_collection()
    def run(self, work: EpochWork) -> Due:
        """In each phase the rows that bring patterns come first."""
        slots = stored_types(pattern_slots(self._node))
        entries = self._paging.entries(work, self._node.uid, self._keys, slots, is_trusted=True)
        shared = self._paging.entries(
            work, broadcast_uid(self._node), SCOPE, stored_types(rule_slots()), is_trusted=True
        )
        rules = RuleSet(self._book, work, shared.entry(ALL_KEYS, SHARED_PAGE))
        epoch = self._timed if self._node.event_time else self._untimed
        waiting = epoch(work, entries, rules)
        if rules.has_dropped:
            _forget(entries, rules)
        shared.flush()
        due = entries.flush()
        return Due(min(due.event, waiting), due.processing, due.expiry)

    def _timed(self, work: EpochWork, entries: Entries, rules: RuleSet) -> int:
        """Rows meet the patterns that are in force when the watermark passes them."""
        times = work.times
        waiting = WaitingRows(self._node, work, self._order, self._paging.key_groups)
        rules.update(work.other_before, times.before)
        waiting.add(work.before, times.before, BEFORE)
        matching = self._matching(work, entries, rules, BEFORE)
        matching.advance(waiting.ready(times.watermark), times.watermark)
        matching.close()
        rules.retire(times.watermark)
        rules.update(work.other_after, times.watermark)
        waiting.add(work.after, times.watermark, AFTER)
        return waiting.flush(times.watermark)

    def _untimed(self, work: EpochWork, entries: Entries, rules: RuleSet) -> int:
        """Rows meet the patterns that are in force when they come."""
        now = work.times.now
        due = self._matching(work, entries, rules, BEFORE)
        due.expire(now)
        due.close()
        rules.retire(now)
        for phase, updates, rows in ((BEFORE, work.other_before, work.before), (AFTER, work.other_after, work.after)):
            rules.update(updates, now)
            matching = self._matching(work, entries, rules, phase)
            match_arrived(self._node, work, rows, matching, self._order)
            matching.close()
        return Due().event

    def _matching(self, work: EpochWork, entries: Entries, rules: RuleSet, phase: int) -> Matching:
        in_force = rules.active()
        for active in in_force:
            active.sought.program.conditions.now = work.times.now
        results = {output: RuleResults(self._node, self._rows, work, output, in_force) for output in (MAIN, TIMED_OUT)}
        return Matching(
            self._node, [_careful(active, self._node, work) for active in in_force], results, entries, phase
        )


def _careful(active: Active, node: StreamNode, work: EpochWork) -> Sought:
    """A pattern whose failures are dead letters: one bad rule must not end what the others are for."""
    examine = functools.partial(active.sought.program.conditions.examine_each, refuse=_refuse(active, node, work))
    return active.sought._replace(examine=examine)


def _refuse(active: Active, node: StreamNode, work: EpochWork) -> Refuse:
    bad = work.ledger.bad_records(node.id, "dead_letter")

    def refuse(record: dict[str, Any], problem: Exception) -> None:
        bad.refuse_result({RULE: active.name, VERSION: active.version, "record": record}, problem)

    return refuse


def _forget(entries: Entries, rules: RuleSet) -> None:
    """Free the partial matches of patterns that are gone."""
    known = rules.generations()
    for entry in entries.everything():
        held = entry.slots[PARTIAL] or {}
        kept = {generation: saved for generation, saved in held.items() if generation in known}
        if len(kept) < len(held):
            entry.slots[PARTIAL] = kept or None
            if not kept:
                entry.event_timers, entry.processing_timers = set(), set()
            entry.is_dirty = True


class RuleResults:
    """Computes the measures of each pattern and writes them as one text."""

    def __init__(self, node: StreamNode, rows: Schema, work: EpochWork, output: str, rules: list[Active]) -> None:
        self._node, self._rows, self._work, self._output = node, rows, work, output
        self._keys, self._schema = rows.select(node.keys), node.outputs[output]
        self._by_program = {active.sought.program: self._measures(active) for active in rules}
        self._phase = BEFORE

    def _measures(self, active: Active) -> MeasureResults:
        measures: Measures = active.rule.measures if self._output == MAIN else active.rule.timed_out
        schema = Schema((*self._keys, *(Field(name, measure.expression.type) for name, measure in measures)))
        counts = self._work.ledger.count(self._node.id)
        emit = self._written(active)
        return MeasureResults(
            measures,
            self._keys,
            self._rows,
            (self._output, schema),
            emit,
            counts,
            step=self._node.id,
            refuse=_refuse(active, self._node, self._work),
        )

    def _written(self, active: Active) -> Callable[[str, Batch, int], None]:
        """Measures become JSON: instants as ISO text in UTC, decimals as text, bytes as base64."""

        def emit(output: str, batch: Batch, phase: int) -> None:
            count, keys = batch.num_rows, len(self._keys)
            measures = pa.RecordBatch.from_arrays(batch.rows.columns[keys:], names=batch.rows.schema.names[keys:])
            texts = [msgspec.json.encode(row).decode() for row in batch_to_rows(measures)]
            columns = [pa.repeat(active.name, count), pa.repeat(pa.scalar(active.version, pa.int64()), count)]
            columns += [*batch.rows.columns[:keys], pa.array(texts, pa.string())]
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
            self._work.emit(output, Batch(rows, batch.times), phase)

        return emit

    @property
    def phase(self) -> int:
        """Whether what comes now belongs before the watermark or behind it."""
        return self._phase

    @phase.setter
    def phase(self, phase: int) -> None:
        self._phase = phase
        for results in self._by_program.values():
            results.phase = phase

    def add(self, program: Program, key: Row, taken: list[list[Row]], time: int | None) -> None:
        """One more match of a pattern."""
        self._by_program[program].add(program, key, taken, time)

    def flush(self) -> None:
        """Hand on what is held."""
        for results in self._by_program.values():
            results.flush()


PATTERN_RULES = KeyedKind(takes=Patterns, operator=RulesOperator, stores=rule_stores, settings=row_settings)
