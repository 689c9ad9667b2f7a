"""Fused chains: the nodes of a vertex run over a batch in one pass. Neighbouring Python steps share their rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.watermark import EventTime
from millstream.graph.step import Filter, MapBatches, OnError, PythonMap, Select, Union, WithColumns
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.model.schema import Schema
from millstream.records.batch import Batch, joined
from millstream.records.codecs import batch_to_rows, rows_to_batch
from millstream.runtime.bad_records import BadRecords, failure
from millstream.runtime.chain.async_map import answers
from millstream.runtime.chain.event_time import Timing
from millstream.runtime.chain.lookup import LookupJoin
from millstream.runtime.expressions import Predicate, Projection

NOT_A_ROW = "(not a row)"
"""Stands for the columns of what is no row, so that a schema refuses it by name."""
Stage = Callable[[Batch, "Ledger"], Iterable[Batch]]
"""One stage of a chain: takes a batch, gives the batches behind it."""


class Ledger:
    """The books of a task: what became of the rows of each step, its bad records, and the clock of the epoch."""

    def __init__(self, counts: Callable[[str], StepCounts], now: int) -> None:
        self.count = counts
        self.now = now
        self._bad: dict[str, BadRecords] = {}

    def bad_records(self, step: str, on_error: OnError | None) -> BadRecords:
        """The policy of a step, kept for the life of the task; `None` where a step offers no choice."""
        if step not in self._bad:
            self._bad[step] = BadRecords(step, on_error, self.count(step), self.now)
        return self._bad[step]

    def dead_letters(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Dead letters by step since the last call."""
        # Dead letters may run through Python steps, which add policies of their own while they are handed on.
        for step, bad in list(self._bad.items()):
            letters = bad.take_letters()
            if letters is not None:
                yield step, letters

    def saw_times(self, step: str, newest: int, *, rows: int, mark: int | None) -> None:
        """An event-time step met that many rows, this newest event time, and a mark if they carried one."""


def build_stages(nodes: Iterable[StreamNode]) -> list[Stage]:
    """The stages of a chain; runs of Python steps become one stage."""
    stages: list[Stage] = []
    for is_python, group in itertools.groupby(nodes, lambda node: isinstance(node.operation, PythonMap)):
        members = list(group)
        stages += [_python_stage(members)] if is_python else [_stage(node) for node in members]
    return stages


def run_stages(stages: list[Stage], batch: Batch, ledger: Ledger) -> Iterable[Batch]:
    """Push a batch through all stages."""
    batches: Iterable[Batch] = (batch,)
    for stage in stages:
        batches = [out for each in batches for out in stage(each, ledger)]
    return batches


def _stage(node: StreamNode) -> Stage:
    open_stage = STAGES.get(type(node.operation))
    if open_stage is None:
        msg = f"a {node.operation.kind} node cannot stand inside a chain"
        raise AssertionError(msg)
    return open_stage(node)


def _pass_stage(node: StreamNode) -> Stage:
    step = node.id

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        _passed(ledger.count(step), batch.num_rows)
        return (batch,)

    return stage


def _passed(counts: StepCounts, rows: int) -> None:
    counts.rows_in += rows
    counts.passed += rows
    counts.rows_out += rows


def _filter_stage(node: StreamNode) -> Stage:
    step, predicate = node.id, Predicate(node.expressions[0][1])

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        kept = batch.filter(evaluated(step, predicate.mask, batch.rows))
        counts = ledger.count(step)
        counts.rows_in += batch.num_rows
        counts.passed += kept.num_rows
        counts.rows_out += kept.num_rows
        counts.filtered += batch.num_rows - kept.num_rows
        return (kept,) if kept.num_rows else ()

    return stage


def _project_stage(node: StreamNode) -> Stage:
    step, projection = node.id, Projection(node.expressions)

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        _passed(ledger.count(step), batch.num_rows)
        return (Batch(evaluated(step, projection.apply, batch.rows), batch.times),)

    return stage


def _lookup_stage(node: StreamNode) -> Stage:
    lookup = LookupJoin(node)

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        made, missing = lookup.join(batch, ledger.now)
        counts = ledger.count(node.id)
        filtered = missing if isinstance(node.operation, Lookup) and node.operation.how == "inner" else 0
        counts.rows_in += batch.num_rows
        counts.passed += batch.num_rows - filtered
        counts.filtered += filtered
        counts.rows_out += made.num_rows
        return (made,) if made.num_rows else ()

    return stage


def _async_stage(node: StreamNode) -> Stage:
    operation = node.operation
    assert isinstance(operation, AsyncMap)

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        counts, bad = ledger.count(node.id), ledger.bad_records(node.id, operation.on_error)
        rows = batch_to_rows(batch.rows)
        counts.rows_in += len(rows)
        found = answers(operation, rows)
        for answer in found:
            if answer.problem is not None:
                bad.refuse(rows[answer.place], answer.problem)
        given = [answer for answer in found if answer.problem is None]
        kept, values = to_batch([answer.row for answer in given], node.outputs["main"], bad.refuse)
        counts.passed += values.num_rows
        counts.rows_out += values.num_rows
        places = np.array([answer.place for answer in given], np.int64)
        places = places if kept is None else places[kept]
        times = None if batch.times is None else batch.times.take(pa.array(places))
        return (Batch(values, times),) if values.num_rows else ()

    return stage


def evaluated(step: str, evaluate: Callable[[pa.RecordBatch], Any], rows: pa.RecordBatch) -> Any:
    """Run an expression; its failure names the step."""
    try:
        return evaluate(rows)
    except MillstreamError as problem:
        raise at_step(problem, step) from problem


def at_step(problem: MillstreamError, step: str) -> StepFailed:
    """An evaluation error with the step it happened in."""
    fields = problem.fields() | {"step": problem.step or step}
    message = str(fields.pop("message"))
    return StepFailed(message, **fields)


def _event_time_stage(node: StreamNode) -> Stage:
    timing = Timing(node)

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        made: Batch = evaluated(node.id, lambda _: timing.timed(batch, ledger), batch.rows)
        return (made,) if made.num_rows else ()

    return stage


def _batches_stage(node: StreamNode) -> Stage:
    assert isinstance(node.operation, MapBatches)
    step, function, schema = node.id, node.operation.function.target, node.operation.schema.arrow

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        _passed(ledger.count(step), batch.num_rows)
        try:
            made = function(batch.rows)
        except Exception as problem:
            raise failure(step, f"a batch of {batch.num_rows} rows", problem) from problem
        return (Batch(_checked_batch(step, made, schema, batch.num_rows), batch.times),)

    return stage


def _checked_batch(step: str, made: Any, schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if isinstance(made, pa.Table):
        made = made.combine_chunks().to_batches()[0] if made.num_rows else pa.RecordBatch.from_pylist([], schema=schema)
    problem = ""
    if not isinstance(made, pa.RecordBatch):
        problem = f"map_batches must return a RecordBatch or Table, got {type(made).__name__}"
    elif made.schema.names != schema.names:
        problem = f"map_batches returned columns {made.schema.names}, declared are {schema.names}"
    elif made.num_rows != rows:
        problem = f"map_batches returned {made.num_rows} rows for {rows}; use filter or flat_map to change their number"
    if problem:
        raise StepFailed(
            problem, step=step, code="RUN-002", hint="return a batch with the declared columns, row for row"
        )
    try:
        return made.cast(schema)
    except pa.ArrowException as wrong:
        msg = f"map_batches returned other types: {wrong}"
        raise StepFailed(
            msg, step=step, code="RUN-002", known=str(schema), hint="correct schema= or the batch"
        ) from wrong


STAGES: dict[type, Callable[[StreamNode], Stage]] = {
    Filter: _filter_stage,
    Select: _project_stage,
    WithColumns: _project_stage,
    EventTime: _event_time_stage,
    MapBatches: _batches_stage,
    Union: _pass_stage,
    Lookup: _lookup_stage,
    AsyncMap: _async_stage,
}
"""What each stateless operation does, but for Python steps, which share a stage."""


Refuse = Callable[[Any, Exception], None]
"""Takes a bad row and what is wrong with it."""
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


def _python_stage(nodes: list[StreamNode]) -> Stage:
    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        made = []
        for start in range(0, batch.num_rows, _CHUNK):
            chunk = batch.slice(start, _CHUNK)
            rows = batch_to_rows(chunk.rows)
            passed = _through(nodes, Passed(rows, range(len(rows)), len(rows)), ledger)
            if passed.rows:
                made.append(_collected(passed, chunk, nodes[-1], ledger))
        return (joined(made),) if made else ()

    return stage


def _through(nodes: list[StreamNode], rows: Passed, ledger: Ledger) -> Passed:
    """Run Python steps one behind the other; the last one counts what it emits when its rows have become a batch."""
    for node in nodes:
        operation = node.operation
        assert isinstance(operation, PythonMap)
        counts = ledger.count(node.id)
        counts.rows_in += len(rows.rows)
        bad = ledger.bad_records(node.id, operation.on_error)
        rows = _ROW_LOOPS[operation.shape](rows.rows, rows.places, operation.function.target, bad)
        counts.passed += rows.passed
        counts.filtered += rows.filtered
        if node is not nodes[-1]:
            counts.rows_out += len(rows.rows)
            rows = rows._replace(rows=_as_dicts(rows.rows))
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


def to_batch(made: Iterable[Any], schema: Schema, refuse: Refuse) -> tuple[list[int] | None, pa.RecordBatch]:
    """Rows as a batch of the declared schema, and which of them are in it (`None`: all); the rest is refused one by one."""
    rows = [row if type(row) is dict else as_mapping(row) for row in made]
    try:
        return None, rows_to_batch(rows, schema)
    except MillstreamError:
        pass
    kept: list[int] = []
    for place, row in enumerate(rows):
        try:
            rows_to_batch([row], schema)
        except MillstreamError as problem:
            refuse(row, problem)
        else:
            kept.append(place)
    return kept, rows_to_batch([rows[place] for place in kept], schema)


def as_mapping(row: Any) -> Mapping[str, Any]:
    """What a user function returned, as a mapping: dicts, dataclasses, pydantic models and named tuples."""
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if hasattr(row, "model_dump"):
        return dict(row.model_dump())
    if hasattr(row, "_asdict"):
        return dict(row._asdict())
    return {NOT_A_ROW: row}


def is_row(made: Any) -> bool:
    """Whether what a user function returned is a row."""
    return isinstance(made, dict) or NOT_A_ROW not in as_mapping(made)


def _map_rows(rows: list[Any], places: Sequence[int], function: Callable[[Any], Any], bad: BadRecords) -> Passed:
    made: list[Any] = []
    refused: set[int] = set()
    waiting = iter(rows)
    while len(made) + len(refused) < len(rows):
        try:
            made.extend(map(function, waiting))  # what came before a failure stays in the list
        except Exception as problem:
            place = len(made) + len(refused)
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
        except Exception as problem:
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
        except Exception as problem:
            bad.refuse(row, problem)
            continue
        if keep:
            kept.append(row)
            stems.append(place)
        else:
            filtered += 1
    return Passed(kept, stems, len(kept), filtered)


_ROW_LOOPS = {"map": _map_rows, "flat_map": _flat_map_rows, "filter_rows": _filter_rows}
