"""Sources and sinks as the user writes them: a connector by name, with its options checked."""

from __future__ import annotations

from collections.abc import Callable

from millstream.api.values.error_policy import OnErrorLike, policy
from millstream.errors import InvalidStep, MillstreamError
from millstream.graph.operations.endpoints import Sink, Source
from millstream.model.connector import ConnectorSpec, Options, checked_options, sink_declaration, source_declaration
from millstream.model.flow import FlowControl
from millstream.model.ids import step_id
from millstream.model.schema import Schema, SchemaLike, schema_of


def source_operation(
    name: str,
    connector: ConnectorSpec,
    *,
    schema: SchemaLike | None,
    on_error: OnErrorLike,
    credit: int | None,
    flow: FlowControl | None,
) -> Source:
    """A source as it stands in the plan; one that knows its schema needs none."""
    checked_id = step_id(name)
    connector = _connector(connector, checked_id)
    declared = source_declaration(connector, step=checked_id)
    options = checked_options(declared.options, connector.options, step=checked_id, name=connector.name)
    if schema is None and declared.schema is not None:
        schema = _known_schema(declared.schema, options, checked_id)
    if schema is None:
        msg = f"source {name!r} needs a schema"
        raise InvalidStep(msg, code="STEP-061", step=name, hint="pass schema='user string, amount double'")
    return Source(
        connector=ConnectorSpec(connector.name, options),
        schema=schema_of(schema),
        on_error=policy(on_error, name),
        credit=credit,
        flow=_flow(flow, checked_id),
    )


def _known_schema(ask: Callable[[Options], Schema | None], options: Options, step: str) -> Schema | None:
    """What the connector knows of its rows; whom it asks does not know for which step."""
    try:
        return ask(options)
    except MillstreamError as problem:
        raise problem.of_step(step, instead=True) from problem


def _flow(value: object, step: str) -> FlowControl | None:
    if value is None or isinstance(value, FlowControl):
        return value
    msg = "flow= takes flow control"
    hint = "pass for example ms.FlowControl(target='1s')"
    raise InvalidStep(msg, code="FLOW-001", step=step, found=repr(value), hint=hint)


def sink_operation(name: str, connector: ConnectorSpec) -> Sink:
    """A sink as it stands in the plan."""
    checked_id = step_id(name)
    connector = _connector(connector, checked_id)
    declared = sink_declaration(connector, step=checked_id)
    options = checked_options(declared.options, connector.options, step=checked_id, name=connector.name)
    return Sink(connector=ConnectorSpec(connector.name, options))


def _connector(value: object, step: str) -> ConnectorSpec:
    if isinstance(value, ConnectorSpec):
        return value
    msg = "not a connector"
    raise InvalidStep(msg, code="STEP-063", step=step, found=repr(value), hint="pass for example ms.files('in/')")
