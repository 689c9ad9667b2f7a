"""From steps to nodes: each step is checked against the nodes before it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.model import StreamModel
from millstream.graph.operations.join import (
    needs_event_time,
)
from millstream.graph.operations.rank import WindowRank
from millstream.graph.operations.watermark import EventTime
from millstream.graph.outputs import column_of, outputs_of
from millstream.graph.patterns.rules import Patterns
from millstream.graph.step import (
    TWO_INPUTS,
    CoProcess,
    Process,
    Step,
    StepInput,
    Window,
)
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.ids import StepId
from millstream.model.schema import Schema

_UNHASHABLE = (pa.types.is_nested,)


def resolve_graph(model: StreamModel) -> StreamGraph:
    """Resolve every step of a model."""
    nodes: dict[StepId, StreamNode] = {}
    for step in model.steps:
        nodes[step.id] = resolve(step, nodes)
    return StreamGraph(name=model.name, nodes=tuple(nodes.values()), requirements=model.requirements)


def resolve(step: Step, before: Mapping[StepId, StreamNode]) -> StreamNode:
    """Check one step against the nodes before it and derive its outputs."""
    schemas = [_output_of(edge, before, step.id) for edge in step.inputs]
    source_schema = schemas[0] if schemas else None
    for edge, schema in zip(step.inputs, schemas, strict=True):
        check_keys(edge.keys, schema, step.id)
    if isinstance(step.operation, TWO_INPUTS):
        _check_pair(step, schemas)
    if isinstance(step.operation, EventTime) and step.operation.align is not None:
        _check_aligned(step, before)
    expressions, outputs = outputs_of(step, schemas)
    # Rows that bring patterns have no time: they must not hold back the watermark of the others.
    timed = step.inputs[:1] if isinstance(step.operation, Patterns) else step.inputs
    upstream = {time for edge in timed for time in before[edge.step].event_time}
    event_time = (step.id,) if isinstance(step.operation, EventTime) else tuple(sorted(upstream))
    if isinstance(step.operation, (Window, WindowRank)) and needs_times(step.operation) and not event_time:
        msg = "windows need event time"
        raise InvalidStep(
            msg, code="STEP-040", step=step.id, hint="call .event_time('column') on the stream before key_by"
        )
    if isinstance(step.operation, (Process, CoProcess)) and not event_time:
        _check_clocks(step.operation, step.id)
    if needs_event_time(step.operation) and not all(before[edge.step].event_time for edge in step.inputs):
        msg = "this join needs event time on both sides"
        raise InvalidStep(msg, code="STEP-040", step=step.id, hint="call .event_time('column') on both before key_by")
    return StreamNode(
        id=step.id,
        uid=step.uid,
        operation=step.operation,
        inputs=step.inputs,
        input_schema=source_schema,
        outputs=outputs,
        expressions=expressions,
        event_time=event_time,
        has_given_id=step.has_given_id,
        other_schema=schemas[1] if isinstance(step.operation, TWO_INPUTS) else None,
        starts_chain=step.starts_chain,
    )


def _check_pair(step: Step, schemas: list[Schema]) -> None:
    """Both sides of a keyed pair have keys of the same types, or rows that belong together would not meet."""
    left, right = step.inputs
    if right.partition == "broadcast":
        return
    types = [[schema[key].type for key in edge.keys] for edge, schema in zip((left, right), schemas, strict=True)]
    if types[0] != types[1]:
        msg = "the two streams are keyed by different types"
        raise InvalidStep(
            msg,
            code="STEP-047",
            step=step.id,
            found=", ".join(f"{key} {kind}" for key, kind in zip(right.keys, types[1], strict=False)),
            known=", ".join(f"{key} {kind}" for key, kind in zip(left.keys, types[0], strict=False)),
            hint="key both by the same number of columns of the same types; cast before key_by",
        )


def _check_aligned(step: Step, before: Mapping[StepId, StreamNode]) -> None:
    """Only sources can be told to wait, so event time must be declared before rows change subtask."""
    edges = list(step.inputs)
    while edges:
        edge = edges.pop()
        if edge.partition != "forward":
            msg = "only event time before the first key_by or rebalance can be aligned"
            raise InvalidStep(
                msg, code="STEP-163", step=step.id, found=f"{edge.partition} behind {edge.step!r}", hint="remove align="
            )
        edges += before[edge.step].inputs


def check_keys(keys: tuple[str, ...], schema: Schema, step: str) -> None:
    """Key columns exist and have a type with a stable hash."""
    for key in keys:
        column_of(key, schema, step)
        if any(test(schema[key].type) for test in _UNHASHABLE):
            msg = f"column {key!r} cannot be a key"
            raise InvalidStep(
                msg,
                code="STEP-041",
                step=step,
                found=schema[key].type_name,
                known="plain types",
                hint="key by a field of it",
            )


def _output_of(edge: StepInput, before: Mapping[StepId, StreamNode], step: str) -> Schema:
    outputs = before[edge.step].outputs
    if edge.output not in outputs:
        msg = f"step {edge.step!r} has no output {edge.output!r}"
        raise InvalidStep(msg, code="STEP-043", step=step, known=outputs, hint="use one of its outputs")
    return outputs[edge.output]


def needs_times(operation: Window | WindowRank) -> bool:
    """Whether a window needs rows with event time."""
    if isinstance(operation, WindowRank):
        return True
    by_trigger = operation.trigger is not None and operation.trigger.needs_event_time
    return operation.window.is_event_timed or by_trigger or any(s.is_event_timed for s in operation.key_states)


def _check_clocks(operation: Process | CoProcess, step: str) -> None:
    for state in operation.states:
        if state.is_event_timed:
            msg = f"state {state.name!r} expires by event time, which the step does not have"
            raise InvalidStep(
                msg, code="STEP-040", step=step, hint="call .event_time('column') on the stream before key_by"
            )
