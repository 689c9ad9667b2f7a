"""Settings of a job that the service keeps beside its definition, and what they mean: options of the job and of its connectors.

They are applied to the model of a job before it is compiled, so a job file, a program and a definition in JSON take them alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.model import StreamModel
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.step import Step
from millstream.model.connector import (
    ConnectorSpec,
    Option,
    checked_options,
    sink_declaration,
    source_declaration,
)
from millstream.model.flow import STRATEGIES, FlowControl
from millstream.plan.option_values import milliseconds

INTERVAL = "checkpoint.interval"
RETENTION = "checkpoint.retention"
STRATEGY = "backpressure.strategy"
SOURCE_BATCH = "source.batch.size"
SINK_BATCH = "sink.batch.size"
_MOST = 2**31 - 1


def checked_setting(key: str, value: Any) -> Any:
    """The value of a setting as it is applied; an unknown key and a value it does not take are refused.

    Raises:
        InvalidPlan: (CTL-310) there is no such setting, (CTL-312) it does not take the value.
    """
    if key not in SETTINGS:
        msg = f"there is no setting {key!r}"
        hint = "use a known one; a name without dots gives a value to a parameter of the job, or to a secret if it is sensitive"
        raise InvalidPlan(msg, code="CTL-310", known=list(SETTINGS), hint=hint)
    try:
        return SETTINGS[key](value)
    except (ValueError, InvalidStep) as problem:
        known = problem.message if isinstance(problem, InvalidStep) else str(problem)
        msg = f"the setting {key!r} does not take this value"
        raise InvalidPlan(msg, code="CTL-312", found=repr(value), known=known, hint=f"correct {key}") from None


def applied(model: StreamModel, config: Mapping[str, Any]) -> StreamModel:
    """A job with its settings; those that a step of it cannot take are refused.

    Raises:
        InvalidPlan: (CTL-310, CTL-312) as `checked_setting`, (CTL-314) a step has nothing that the setting could mean.
    """
    values = {key: checked_setting(key, value) for key, value in config.items()}
    requirements = model.requirements
    if INTERVAL in values:
        requirements = dataclasses.replace(requirements, epoch_interval=values[INTERVAL])
    steps = tuple(_applied_to(step, values) for step in model.steps)
    return dataclasses.replace(model, requirements=requirements, steps=steps)


def epoch_options(config: Mapping[str, Any]) -> dict[str, int]:
    """What the settings say about `EpochPolicy`."""
    return {"retained": checked_setting(RETENTION, config[RETENTION])} if RETENTION in config else {}


def _applied_to(step: Step, values: Mapping[str, Any]) -> Step:
    operation = step.operation
    if isinstance(operation, Source):
        if STRATEGY in values:
            operation = dataclasses.replace(operation, flow=_flow(operation.flow, values[STRATEGY], step.id))
        if SOURCE_BATCH in values:
            declared = source_declaration(operation.connector, step=step.id)
            way = declared.batch_option(operation.connector.options)
            connector = _with_batch(operation.connector, declared.options, way, (SOURCE_BATCH, values), step.id)
            operation = dataclasses.replace(operation, connector=connector)
    elif isinstance(operation, Sink) and SINK_BATCH in values:
        to = sink_declaration(operation.connector, step=step.id)
        way = to.batch_option(operation.connector.options)
        connector = _with_batch(operation.connector, to.options, way, (SINK_BATCH, values), step.id)
        operation = dataclasses.replace(operation, connector=connector)
    return step if operation is step.operation else dataclasses.replace(step, operation=operation)


def _flow(given: FlowControl | None, strategy: str, step: str) -> FlowControl:
    """The strategy of the setting with the capacity that the job gives its source."""
    now = given or FlowControl()
    try:
        return FlowControl(
            strategy,
            capacity_rows=now.capacity_rows,
            capacity_bytes=now.capacity_bytes,
            target=now.target,
            key=now.key if strategy == "latest" else (),
            window=now.window,
        )
    except InvalidStep as problem:
        msg = f"the setting {STRATEGY!r} does not fit this source: {problem.message}"
        hint = "give the source a capacity in the job: flow=FlowControl(..., capacity_rows=N)"
        raise InvalidPlan(msg, code="CTL-314", step=step, found=strategy, hint=hint) from None


def _with_batch(
    connector: ConnectorSpec,
    declared: Mapping[str, Option],
    way: tuple[str, ...],
    setting: tuple[str, Mapping[str, Any]],
    step: str,
) -> ConnectorSpec:
    key, values = setting
    if not way:
        msg = f"the setting {key!r} has no meaning here: connector {connector.name!r} asks for no number of rows"
        hint = f"remove {key}, and set the options of the other steps in the job itself"
        raise InvalidPlan(msg, code="CTL-314", step=step, found=values[key], hint=hint)
    options = _placed(connector.options, way, values[key])
    return ConnectorSpec(connector.name, checked_options(declared, options, step=step, name=connector.name))


def _placed(options: Mapping[str, Any], way: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *inner = way
    placed = _placed(options.get(first) or {}, tuple(inner), value) if inner else value
    return {**options, first: placed}


def _interval(value: Any) -> int:
    found = milliseconds(INTERVAL, value)
    if not 0 <= found <= _MOST:
        msg = "milliseconds, or a duration such as '10s'"
        raise ValueError(msg)
    return found


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST:
        msg = f"a whole number from 1 to {_MOST}"
        raise ValueError(msg)
    return value


def _strategy(value: Any) -> str:
    """In either case: the original names are in capitals, ours are not."""
    lowered = value.lower() if isinstance(value, str) else value
    name = lowered if lowered in STRATEGIES else value
    # What it needs beside it is known of each source alone.
    return FlowControl(name, capacity_rows=1).strategy


SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    INTERVAL: _interval,
    RETENTION: _count,
    STRATEGY: _strategy,
    SOURCE_BATCH: _count,
    SINK_BATCH: _count,
}
"""Each setting with what reads its value."""
