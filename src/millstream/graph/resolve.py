"""From steps to nodes: each step is checked against the nodes before it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges
from millstream.graph.model import StreamModel
from millstream.graph.operation import OverChanges
from millstream.graph.outputs import column_of
from millstream.graph.step import MAIN, Step, StepInput
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
    is_pair = step.operation.takes == "pair"
    schemas = _input_schemas(step, before)
    operation, changelog = _over_changes(step, before, schemas)
    if is_pair:
        _check_pair(step, schemas)
    operation.check_path(step, before)
    expressions, outputs = operation.gives(step, schemas)
    times = [before[edge.step].event_time for edge in operation.timed_inputs(step)]
    operation.check_times(step, times)
    upstream = {time for of_input in times for time in of_input}
    return StreamNode(
        id=step.id,
        uid=step.uid,
        operation=operation,
        inputs=step.inputs,
        input_schema=schemas[0] if schemas else None,
        outputs=outputs,
        expressions=expressions,
        event_time=(step.id,) if operation.declares_time else tuple(sorted(upstream)),
        has_given_id=step.has_given_id,
        other_schema=schemas[1] if is_pair else None,
        starts_chain=step.starts_chain,
        changelog=changelog,
    )


def _over_changes(step: Step, before: Mapping[StepId, StreamNode], schemas: list[Schema]) -> OverChanges:
    """What the step does where changes come in, and of what form the changes are that it gives."""
    came = tuple(before[edge.step].changelog if edge.output == MAIN else None for edge in step.inputs)
    if not any(came):
        return step.operation, step.operation.declared_changes(step, schemas)
    keys = step.inputs[0].keys
    changes = IncomingChanges(step.id, step.operation.kind, came, tuple(schemas), keys)
    if any(edge.partition == "rebalance" for edge in step.inputs):
        msg = "rebalance would bring the changes of a row out of their order"
        raise changes.refused(msg, "CHANGE-001", found=changes.changelog.describe(), hint="remove .rebalance()")
    return step.operation.over_changes(changes)


def _input_schemas(step: Step, before: Mapping[StepId, StreamNode]) -> list[Schema]:
    schemas = [output_of(edge, before, step.id) for edge in step.inputs]
    for edge, schema in zip(step.inputs, schemas, strict=True):
        check_keys(edge.keys, schema, step.id)
    return schemas


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


def output_of(edge: StepInput, before: Mapping[StepId, StreamNode], step: str) -> Schema:
    """What an edge brings; an output that its step does not have is refused."""
    outputs = before[edge.step].outputs
    if edge.output not in outputs:
        msg = f"step {edge.step!r} has no output {edge.output!r}"
        raise InvalidStep(msg, code="STEP-043", step=step, known=outputs, hint="use one of its outputs")
    return outputs[edge.output]
