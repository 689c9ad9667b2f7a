"""Python steps of a chain: rows become dicts once, pass all neighbouring functions, and become a batch again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.graph.operations.rows import PythonMap
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch, joined
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import USER_PROBLEMS, BadRecords, UserProblem
from millstream.runtime.chain.kept_changes import keeping_changes
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.chain.made_rows import as_mapping, to_batch
from millstream.runtime.taken_rows import TakenRow, taken_from

_CHUNK = 4096
"""Rows that become dicts, pass all Python steps of a stage and become a batch again before the next ones do: few enough to
stay in the processor's cache."""


class Passed(NamedTuple):
    """What a Python step made of some rows."""

    rows: list[Any]
    places: Sequence[int]
    """The place of the batch row that each row stems from, so that event times follow them."""
    passed: int
    """How many of the given rows were neither refused nor filtered."""
    filtered: int = 0
    stems: Sequence[int] = ()
    """Where each row makes one: the place, among the rows that the step took, of the one it was made from."""


class _Refusals(NamedTuple):
    """What becomes of the rows that one Python step takes and fails on."""

    bad: BadRecords
    taken: Callable[[int], TakenRow]
    """The rows by their places, as they were before the function saw them: it may have changed them and then failed."""

    def refuse(self, place: int, record: Any, problem: UserProblem) -> None:
        """A row was refused: `record` is what people are to see of it."""
        self.bad.refuse(record, problem, taken=self.taken(place))


def python_stage(nodes: list[StreamNode]) -> Callable[[Batch, Ledger], Iterable[Batch]]:
    """The stage of Python steps that stand one behind the other."""

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        made = []
        for start in range(0, batch.num_rows, _CHUNK):
            chunk = batch.slice(start, _CHUNK)
            ledger.clock.enter_step(nodes[0].id)
            rows = batch_to_rows(chunk.rows)
            ledger.clock.leave()
            passed, refusals = _through(nodes, Passed(rows, range(len(rows)), len(rows)), chunk, ledger)
            if passed.rows:
                ledger.clock.enter_step(nodes[-1].id)
                made.append(_collected(passed, chunk, nodes[-1], refusals, ledger))
                ledger.clock.leave()
        return (joined(made),) if made else ()

    return stage


def _through(nodes: list[StreamNode], rows: Passed, chunk: Batch, ledger: Ledger) -> tuple[Passed, _Refusals]:
    """Run Python steps one behind the other; the last one counts what it emits when its rows have become a batch."""
    taken = taken_from(chunk)
    for node in nodes:
        operation = node.operation
        assert isinstance(operation, PythonMap)
        ledger.clock.enter_step(node.id)
        counts = ledger.count(node.id)
        counts.rows_in += len(rows.rows)
        function = operation.function.target
        if node.changelog is not None:
            function = keeping_changes(function, operation.shape, node.changelog, node.id)
        if node is not nodes[0] and operation.on_error == "dead_letter":
            taken = _copies(rows, chunk)
        refusals = _Refusals(ledger.bad_records(node.id, operation.on_error), taken)
        rows = _ROW_LOOPS[operation.shape](rows.rows, rows.places, function, refusals)
        counts.passed += rows.passed
        counts.filtered += rows.filtered
        if node is not nodes[-1]:
            counts.rows_out += len(rows.rows)
            rows = rows._replace(rows=_as_dicts(rows.rows))
        ledger.clock.leave()
    return rows, refusals


def _copies(rows: Passed, chunk: Batch) -> Callable[[int], TakenRow]:
    """Rows that another function of the chain made: they stand in no batch."""
    copies, places = [dict(row) for row in rows.rows], rows.places

    def taken(place: int) -> TakenRow:
        return TakenRow(copies[place], None if chunk.times is None else chunk.times[places[place]].as_py())

    return taken


def _as_dicts(rows: list[Any]) -> list[Any]:
    """Rows as the next Python step sees them, whatever kind of row the function returned."""
    return rows if set(map(type, rows)) <= {dict} else [dict(as_mapping(row)) for row in rows]


def _collected(passed: Passed, chunk: Batch, last: StreamNode, refusals: _Refusals, ledger: Ledger) -> Batch:
    assert isinstance(last.operation, PythonMap)
    counts, is_one_to_one = ledger.count(last.id), last.operation.shape != "flat_map"

    def refuse(row: Any, problem: Exception, number: int) -> None:
        if is_one_to_one:
            refusals.refuse(passed.stems[number], row, problem)
        else:
            refusals.bad.refuse_result(row, problem)

    kept, values = to_batch(passed.rows, last.outputs["main"], refuse)
    if is_one_to_one:
        counts.passed -= len(passed.rows) - values.num_rows
    counts.rows_out += values.num_rows
    if chunk.times is None:
        return Batch(values)
    places = np.asarray(passed.places, np.int64)
    return Batch(values, chunk.times.take(pa.array(places if kept is None else places[kept])))


def _map_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: _Refusals) -> Passed:
    made: list[Any] = []
    refused: set[int] = set()
    waiting = iter(rows)
    while len(made) + len(refused) < len(rows):
        problem: UserProblem = StopIteration("raised by the function, as next() does where nothing is left")
        try:
            made.extend(map(function, waiting))  # what came before a failure stays in the list
        except USER_PROBLEMS as raised:
            problem = raised
        place = len(made) + len(refused)
        # To `map`, a StopIteration of the function is the end of its rows: it ends early and says nothing.
        if place < len(rows):
            refused.add(place)
            bad.refuse(place, rows[place], problem)
    stems: Sequence[int] = range(len(rows))
    if refused:
        stems = [number for number in stems if number not in refused]
        places = [places[number] for number in stems]
    return Passed(made, places, len(made), stems=stems)


def _flat_map_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: _Refusals) -> Passed:
    made: list[Any] = []
    stems: list[int] = []
    passed = 0
    for number, row in enumerate(rows):
        try:
            some = list(function(row) or ())
        except USER_PROBLEMS as problem:
            bad.refuse(number, row, problem)
            continue
        passed += 1
        made += some
        stems += [places[number]] * len(some)
    return Passed(made, stems, passed)


def _filter_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: _Refusals) -> Passed:
    kept: list[Any] = []
    stems: list[int] = []
    filtered = 0
    for number, row in enumerate(rows):
        try:
            keep = function(row)
        except USER_PROBLEMS as problem:
            bad.refuse(number, row, problem)
            continue
        if keep:
            kept.append(row)
            stems.append(number)
        else:
            filtered += 1
    return Passed(kept, [places[number] for number in stems], len(kept), filtered, stems)


_ROW_LOOPS = {"map": _map_rows, "flat_map": _flat_map_rows, "filter_rows": _filter_rows}
