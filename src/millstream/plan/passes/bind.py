"""Put the parameters of a run into a job: literals into expressions, values into options of connectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.errors import InvalidPlan
from millstream.graph.expressions.parameters import open_params, with_values
from millstream.graph.model import StreamModel
from millstream.graph.operation import Operation
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.graph.texts import texts_of, with_texts
from millstream.model.connector import (
    ConnectorSpec,
    Option,
    checked_options,
    named_params,
    sink_declaration,
    source_declaration,
)
from millstream.model.params import filled, filled_query


def bind(model: StreamModel, values: Mapping[str, Any]) -> StreamModel:
    """The job with those parameters that have a value; others stay as they are, as in a plan that is only looked at."""
    steps = tuple(
        step if (bound := _bound(step.operation, values, step.id)) is step.operation
        else dataclasses.replace(step, operation=bound)
        for step in model.steps
    )  # fmt: skip
    return dataclasses.replace(model, steps=steps)


def refuse_open(nodes: Iterable[StreamNode]) -> None:
    """Nothing runs with a parameter that has no value."""
    for node in nodes:
        names = [name for text in texts_of(node.operation) for name in open_params(text)]
        if isinstance(node.operation, (Source, Sink)):
            names += node.operation.open_params
        if names:
            msg = f"parameter {names[0]!r} has no value in this run"
            hint = f"give it: -P {names[0]}=VALUE, or params={{...}}"
            raise InvalidPlan(msg, code="PARAM-002", step=node.id, hint=hint)


def _bound(operation: Operation, values: Mapping[str, Any], step: str) -> Operation:
    if isinstance(operation, Source):
        declared = source_declaration(operation.connector, step=step).options
        connector = _filled(operation.connector, declared, values, step)
        return operation if connector is operation.connector else dataclasses.replace(operation, connector=connector)
    if isinstance(operation, Sink):
        declared = sink_declaration(operation.connector, step=step).options
        connector = _filled(operation.connector, declared, values, step)
        return operation if connector is operation.connector else dataclasses.replace(operation, connector=connector)
    return with_texts(operation, lambda text: with_values(text, values))


def _option(key: str, value: Any, declared: Option, values: Mapping[str, Any]) -> Any:
    return filled_query(key, value, values) if declared.is_query else filled(value, values, declared.kind)


def _filled(
    connector: ConnectorSpec, declared: Mapping[str, Option], values: Mapping[str, Any], step: str
) -> ConnectorSpec:
    """The connector with its options filled and checked; the same one where it names no parameter that has a value."""
    named = named_params(declared, connector.options)
    ready = {key for key, names in named.items() if all(name in values for name in names)}
    if not ready:
        return connector
    options = {
        key: _option(key, value, declared[key], values) if key in ready else value
        for key, value in connector.options.items()
    }
    return ConnectorSpec(connector.name, checked_options(declared, options, step=step, name=connector.name))
