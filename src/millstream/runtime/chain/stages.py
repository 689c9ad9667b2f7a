"""Fused chains: the nodes of a vertex run over a batch in one pass. Neighbouring Python steps share their rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.graph.operations.changes import AsChangelog, AsRows
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.rows import Filter, MapBatches, PythonMap, Select, Union, WithColumns
from millstream.graph.operations.watermark import EventTime
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import USER_PROBLEMS, failure
from millstream.runtime.chain.async_map import answers
from millstream.runtime.chain.event_time import Timing
from millstream.runtime.chain.kept_changes import check_batch, check_kinds
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.chain.lookup import LookupJoin
from millstream.runtime.chain.made_rows import to_batch
from millstream.runtime.chain.python_steps import python_stage
from millstream.runtime.expressions import Predicate, Projection, evaluated
from millstream.runtime.taken_rows import taken_from

Stage = Callable[[Batch, Ledger], Iterable[Batch]]
"""One stage of a chain: takes a batch, gives the batches behind it."""


def build_stages(nodes: Iterable[StreamNode]) -> list[Stage]:
    """The stages of a chain; runs of Python steps become one stage."""
    stages: list[Stage] = []
    for is_python, group in itertools.groupby(nodes, lambda node: isinstance(node.operation, PythonMap)):
        members = list(group)
        stages += [python_stage(members)] if is_python else [_timed(node.id, _stage(node)) for node in members]
    return stages


def _timed(step: str, stage: Stage) -> Stage:
    """A stage whose time counts as its step's."""

    def timed(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        ledger.clock.enter_step(step)
        made = list(stage(batch, ledger))
        ledger.clock.leave()
        return made

    return timed


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


def _changelog_stage(node: StreamNode) -> Stage:
    step, changelog = node.id, node.changelog
    assert changelog is not None, "it declares one"

    def stage(batch: Batch, ledger: Ledger) -> Iterable[Batch]:
        check_kinds(step, batch.rows, changelog)
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
        rows, taken = batch_to_rows(batch.rows), taken_from(batch)
        counts.rows_in += len(rows)
        all_answers = answers(operation, rows)
        for answer in all_answers:
            if answer.problem is not None:
                bad.refuse(rows[answer.place], answer.problem, taken=taken(answer.place))
        given = [answer for answer in all_answers if answer.problem is None]

        def refuse(row: Any, problem: Exception, number: int) -> None:
            bad.refuse(row, problem, taken=taken(given[number].place))

        kept, values = to_batch([answer.row for answer in given], node.outputs["main"], refuse)
        counts.passed += values.num_rows
        counts.rows_out += values.num_rows
        places = np.array([answer.place for answer in given], np.int64)
        places = places if kept is None else places[kept]
        times = None if batch.times is None else batch.times.take(pa.array(places))
        return (Batch(values, times),) if values.num_rows else ()

    return stage


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
        except USER_PROBLEMS as problem:
            raise failure(step, f"a batch of {batch.num_rows} rows", problem) from problem
        checked = _checked_batch(step, made, schema, batch.num_rows)
        if node.changelog is not None:
            check_batch(step, batch.rows, checked, node.changelog)
        return (Batch(checked, batch.times),)

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
    AsChangelog: _changelog_stage,
    AsRows: _pass_stage,
    Lookup: _lookup_stage,
    AsyncMap: _async_stage,
}
"""What each stateless operation does, but for Python steps, which share a stage."""
