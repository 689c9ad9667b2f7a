"""Functions with state and timers as the user gives them, checked and turned into operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream import registry
from millstream.api.functions.broadcast import BroadcastFunction
from millstream.api.functions.process import CoProcessFunction, ProcessFunction
from millstream.api.functions.window import WindowFunction
from millstream.api.streams.signatures import output_schema, side_outputs
from millstream.api.values.error_policy import OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.operation import Operation
from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.step import StepInput
from millstream.model.schema import SchemaLike, schema_of

TwoInputFunction = CoProcessFunction | BroadcastFunction


def process_operation(
    function: ProcessFunction | type[ProcessFunction] | str,
    schema: SchemaLike | None,
    outputs: Mapping[str, SchemaLike] | None,
    on_error: OnErrorLike,
    label: str,
) -> Process:
    """The step of a `ProcessFunction`; `label` names it in messages."""
    reference = function_ref(function() if isinstance(function, type) else function, step=label)
    if not isinstance(reference.target, ProcessFunction):
        msg = "process takes a ProcessFunction"
        raise InvalidStep(msg, code="STEP-071", step=label, found=reference.name, hint="subclass ms.ProcessFunction")
    return Process(
        function=reference,
        schema=output_schema(type(reference.target).process, schema, step=label, many=True),
        states=tuple(reference.target.state_descriptors()),
        outputs=side_outputs(outputs or {}, label),
        on_error=policy(on_error, label),
    )


def agent_operation(agent: Any, schema: SchemaLike, on_error: OnErrorLike, label: str) -> Operation:
    """The step of an agent, whose operation stands above this layer and needs libraries that other jobs do not."""
    try:
        operation = registry.find("operations", "agent")
    except ModuleNotFoundError as problem:
        msg = "agents need libraries that are not installed"
        hint = "pip install 'millstream[agents]'"
        raise InvalidStep(msg, code="AGENT-003", step=label, found=str(problem), hint=hint) from problem
    made: Operation = operation.of(agent, schema_of(schema), policy(on_error, label), label)
    return made


def co_process_operation(
    function: TwoInputFunction | type[TwoInputFunction] | str,
    inputs: tuple[StepInput, StepInput],
    schema: SchemaLike | None,
    outputs: Mapping[str, SchemaLike] | None,
    on_error: OnErrorLike,
    label: str,
) -> CoProcess:
    """The step of a function over two inputs; `label` names it in messages."""
    reference = function_ref(function() if isinstance(function, type) else function, step=label)
    target = _two_input_function(reference, inputs, label)
    method = type(target).process if isinstance(target, BroadcastFunction) else type(target).process_left
    return CoProcess(
        function=reference,
        schema=output_schema(method, schema, step=label, many=True),
        states=tuple(target.state_descriptors()),
        broadcast=tuple(target.broadcast_descriptors()) if isinstance(target, BroadcastFunction) else (),
        outputs=side_outputs(outputs or {}, label),
        on_error=policy(on_error, label),
    )


def _two_input_function(reference: FunctionRef, inputs: tuple[StepInput, StepInput], label: str) -> TwoInputFunction:
    """The function must be of the kind that the two streams need."""
    left, right = inputs
    is_broadcast = right.partition == "broadcast"
    wanted = BroadcastFunction if is_broadcast else CoProcessFunction
    target = reference.target
    if not isinstance(target, (BroadcastFunction, CoProcessFunction)) or not isinstance(target, wanted):
        msg = f"{'a broadcast stream takes' if is_broadcast else 'connected streams take'} a {wanted.__name__}"
        hint = f"subclass ms.{wanted.__name__}"
        raise InvalidStep(msg, code="STEP-078", step=label, found=reference.name, hint=hint)
    if not left.keys and target.state_descriptors():
        msg = "state per key needs a keyed stream"
        names = ", ".join(state.name for state in target.state_descriptors())
        raise InvalidStep(msg, code="STEP-079", step=label, found=names, hint="call key_by before connect")
    return target


def window_function_options(
    function: Any, schema: SchemaLike | None, outputs: Mapping[str, SchemaLike] | None, label: str
) -> dict[str, Any]:
    """What a window step holds of the function that is called with its rows."""
    is_class = isinstance(function, type) and issubclass(function, WindowFunction)
    reference = function_ref(function() if is_class else function, step=label)
    is_stateful = isinstance(reference.target, WindowFunction)
    called = type(reference.target).process if is_stateful else reference.target
    target = output_schema(called, schema, step=label, many=True)
    return {"process": reference, "schema": target, "outputs": side_outputs(outputs or {}, label)}
