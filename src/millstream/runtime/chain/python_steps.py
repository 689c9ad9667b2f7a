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


def python_stage(nodes: list[StreamNode]) -> Callable[[Batch, Ledger], Iterable[Batch]]:
    """The stage of Python steps that stand one behind the other."""

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        made = []
        for start in range(0, batch.num_rows, _CHUNK):
            chunk = batch.slice(start, _CHUNK)
            ledger.clock.enter_step(nodes[0].id)
            rows = batch_to_rows(chunk.rows)
            ledger.clock.leave()
            passed = _through(nodes, Passed(rows, range(len(rows)), len(rows)), ledger)
            if passed.rows:
                ledger.clock.enter_step(nodes[-1].id)
                made.append(_collected(passed, chunk, nodes[-1], ledger))
                ledger.clock.leave()
        return (joined(made),) if made else ()

    return stage


def _through(nodes: list[StreamNode], rows: Passed, ledger: Ledger) -> Passed:
    """Run Python steps one behind the other; the last one counts what it emits when its rows have become a batch."""
    for node in nodes:
        operation = node.operation
        assert isinstance(operation, PythonMap)
        ledger.clock.enter_step(node.id)
        counts = ledger.count(node.id)
        counts.rows_in += len(rows.rows)
        bad = ledger.bad_records(node.id, operation.on_error)
        function = operation.function.target
        if node.changelog is not None:
            function = keeping_changes(function, operation.shape, node.changelog, node.id)
        rows = _ROW_LOOPS[operation.shape](rows.rows, rows.places, function, bad)
        counts.passed += rows.passed
        counts.filtered += rows.filtered
        if node is not nodes[-1]:
            counts.rows_out += len(rows.rows)
            rows = rows._replace(rows=_as_dicts(rows.rows))
        ledger.clock.leave()
    return rows


def _as_dicts(rows: list[Any]) -> list[Any]:
    """Rows as the next Python step sees them, whatever kind of row the function returned."""
    return rows if set(map(type, rows)) <= {dict} else [dict(as_mapping(row)) for row in rows]


def _collected(passed: Passed, chunk: Batch, last: StreamNode, ledger: Ledger) -> Batch:
    assert isinstance(last.operation, PythonMap)
    bad, counts = ledger.bad_records(last.id, last.operation.on_error), ledger.count(last.id)
    is_one_to_one = last.operation.shape != "flat_map"
    kept, values = to_batch(passed.rows, last.outputs["main"], bad.refuse if is_one_to_one else bad.refuse_result)
    if is_one_to_one:
        counts.passed -= len(passed.rows) - values.num_rows
    counts.rows_out += values.num_rows
    if chunk.times is None:
        return Batch(values)
    places = np.asarray(passed.places, np.int64)
    return Batch(values, chunk.times.take(pa.array(places if kept is None else places[kept])))


def _map_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: BadRecords) -> Passed:
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
            bad.refuse(rows[place], problem)
    if refused:
        places = [place for number, place in enumerate(places) if number not in refused]
    return Passed(made, places, len(made))


def _flat_map_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: BadRecords) -> Passed:
    made: list[Any] = []
    stems: list[int] = []
    passed = 0
    for place, row in zip(places, rows, strict=True):
        try:
            some = list(function(row) or ())
        except USER_PROBLEMS as problem:
            bad.refuse(row, problem)
            continue
        passed += 1
        made += some
        stems += [place] * len(some)
    return Passed(made, stems, passed)


def _filter_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: BadRecords) -> Passed:
    kept: list[Any] = []
    stems: list[int] = []
    filtered = 0
    for place, row in zip(places, rows, strict=True):
        try:
            keep = function(row)
        except USER_PROBLEMS as problem:
            bad.refuse(row, problem)
            continue
        if keep:
            kept.append(row)
            stems.append(place)
        else:
            filtered += 1
    return Passed(kept, stems, len(kept), filtered)


_ROW_LOOPS = {"map": _map_rows, "flat_map": _flat_map_rows, "filter_rows": _filter_rows}
