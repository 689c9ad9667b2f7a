"""The keyed operator of patterns: rows wait for the watermark, are put in the order of time, and are matched per key."""

from __future__ import annotations

from millstream.graph.operations.pattern import MatchPattern
from millstream.graph.operations.rank import instant_order
from millstream.graph.patterns.match_expression import measures_of
from millstream.graph.step import MAIN, TIMED_OUT
from millstream.graph.stream_graph import StreamNode
from millstream.records.value_types import dict_of, list_of, row_type, tuple_of
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, Settings, row_settings
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.epoch import Matching, Sought, match_arrived, without_collection
from millstream.runtime.operators.pattern.matching import key_matcher
from millstream.runtime.operators.pattern.results import FunctionResults, MeasureResults, Results
from millstream.runtime.operators.pattern.waiting import WaitingRows, waiting_stores
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, stored_types


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


class PatternOperator:
    """Looks for a pattern in the rows of each key; patterns that a stream brings are in `rules`."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, MatchPattern)
        assert node.input_schema is not None
        self._node, self._operation, self._rows = node, node.operation, node.input_schema
        self._keys = node.input_schema.select(node.keys)
        self._order = instant_order(node.operation.order_by, self._rows)
        self._slots = stored_types(pattern_slots(node))
        self._paging = Paging(key_groups, page_bytes)
        self._measures = [
            measures_of(measures, node.operation.pattern, self._rows, self._keys, step=node.id)
            for measures in (node.operation.measures, node.operation.timed_out_measures)
        ]
        program = Program(node.operation.pattern, self._rows, step=node.id)
        matcher = key_matcher(program, self._rows, step=node.id, keeps_expired=TIMED_OUT in node.outputs)
        self._sought = [Sought(program, matcher, program.conditions.examine)]

    @without_collection()
    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, what the watermark makes ready, rows after it."""
        self._sought[0].program.conditions.now = work.times.now
        entries = self._paging.entries(work, self._node.uid, self._keys, self._slots, is_trusted=True)
        matching = Matching(self._node, self._sought, self._results(work), entries)
        if not self._node.event_time:
            matching.expire(work.times.now)
            match_arrived(self._node, work, work.before, matching, self._order)
            matching.pass_watermark()
            match_arrived(self._node, work, work.after, matching, self._order)
            matching.close()
            return entries.flush()
        waiting = WaitingRows(self._node, work, self._order, self._paging.key_groups)
        waiting.add(work.before, work.times.before, BEFORE)
        matching.advance(waiting.ready(work.times.watermark), work.times.watermark)
        matching.pass_watermark()
        waiting.add(work.after, work.times.watermark, AFTER)
        matching.close()
        due = entries.flush()
        return Due(min(due.event, waiting.flush(work.times.watermark)), due.processing, due.expiry)

    def _results(self, work: EpochWork) -> dict[str, Results]:
        operation = self._operation
        functions = {MAIN: operation.function, TIMED_OUT: operation.timed_out}
        counts = work.ledger.count(self._node.id)
        bad = work.ledger.bad_records(self._node.id, None)
        results: dict[str, Results] = {}
        for output, measures in zip((MAIN, TIMED_OUT), self._measures, strict=True):
            function, schema = functions[output], self._node.outputs.get(output)
            if schema is None:
                continue
            if function is None:
                results[output] = MeasureResults(
                    measures, self._keys, self._rows, (output, schema), work.emit, counts, step=self._node.id
                )
            else:
                out = RowOutput(output, schema, bad, counts, work.emit)
                results[output] = FunctionResults(function.target, self._node.keys, self._rows, out, self._node.id)
        return results


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, MatchPattern)
    return {**row_settings(node), "pattern": node.operation.pattern.version}


PATTERN = KeyedKind(takes=MatchPattern, operator=PatternOperator, stores=pattern_stores, settings=_settings)
