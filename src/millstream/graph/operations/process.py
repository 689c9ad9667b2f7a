"""Functions of the user with state and timers, over one keyed stream or over two."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.outputs import OnError, with_dead
from millstream.graph.state import StateDescriptor
from millstream.graph.step import MAIN
from millstream.graph.windows.window import duration_text
from millstream.model.ids import StepId
from millstream.model.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process(Operation):
    """A process function with state and timers."""

    kind = "process"
    runs_as = "keyed"
    function: FunctionRef
    schema: Schema
    states: tuple[StateDescriptor, ...] = ()
    outputs: tuple[tuple[str, Schema], ...] = ()
    on_error: OnError = "fail"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The rows that the function gives, and its side outputs."""
        del step, schemas
        return (), with_dead({MAIN: self.schema, **dict(self.outputs)}, self.on_error)

    def describe(self) -> str:
        """The function."""
        return self.function.describe()

    def facts(self) -> Iterator[tuple[str, str]]:
        """Its states."""
        return _state_facts(self.states)

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Its states."""
        del node
        return {"states": [state.stored for state in self.states]}

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """State that expires by event time needs that."""
        if not any(times):
            _refuse_event_timed(self.states, step.id)

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The function declares its states."""
        return _with_states(fields, step)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CoProcess(Operation):
    """A function with state and timers over two keyed streams, or over a keyed and a broadcast one."""

    kind = "co_process"
    runs_as = "keyed"
    takes = "pair"
    function: FunctionRef
    schema: Schema
    states: tuple[StateDescriptor, ...] = ()
    broadcast: tuple[StateDescriptor, ...] = ()
    """State that every subtask holds whole; only rows of the broadcast stream change it."""
    outputs: tuple[tuple[str, Schema], ...] = ()
    on_error: OnError = "fail"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The rows that the function gives, and its side outputs."""
        del step, schemas
        return (), with_dead({MAIN: self.schema, **dict(self.outputs)}, self.on_error)

    def describe(self) -> str:
        """The function."""
        return self.function.describe()

    def facts(self) -> Iterator[tuple[str, str]]:
        """Its states per key."""
        return _state_facts(self.states)

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Its states; those that are broadcast do not expire."""
        del node
        return {
            "states": [state.stored for state in self.states],
            "broadcast": [[state.name, state.schema, state.version] for state in self.broadcast],
        }

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """State that expires by event time needs that."""
        if not any(times):
            _refuse_event_timed(self.states, step.id)

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The function declares its states, and those that are broadcast if it has such."""
        declared = _with_states(fields, step)
        function: FunctionRef | None = declared.get("function")
        if function is None or not hasattr(function.target, "broadcast_descriptors"):
            return declared
        return {**declared, "broadcast": tuple(function.target.broadcast_descriptors())}


def _with_states(fields: dict[str, Any], step: str) -> dict[str, Any]:
    if "function" not in fields:
        return fields
    function: FunctionRef = fields["function"]
    if not hasattr(function.target, "state_descriptors"):
        msg = "process takes a ProcessFunction"
        raise InvalidStep(msg, code="STEP-071", step=step, found=function.name, hint="subclass ms.ProcessFunction")
    return {**fields, "states": tuple(function.target.state_descriptors())}


def _state_facts(states: tuple[StateDescriptor, ...]) -> Iterator[tuple[str, str]]:
    for state in states:
        ttl = "" if state.ttl is None else _ttl_text(state, state.ttl)
        version = f", version {state.version}" if state.version > 1 else ""
        yield "state", f"{state.name}: {state.kind} of {state.type_text}{ttl}{version}"


def _ttl_text(state: StateDescriptor, ttl: int) -> str:
    clock = " of event time" if state.ttl_clock == "event" else ""
    return f", kept {duration_text(ttl)}{clock}{' after it was read' if state.ttl_update == 'read' else ''}"


def _refuse_event_timed(states: tuple[StateDescriptor, ...], step: str) -> None:
    for state in states:
        if state.is_event_timed:
            msg = f"state {state.name!r} expires by event time, which the step does not have"
            raise InvalidStep(
                msg, code="STEP-040", step=step, hint="call .event_time('column') on the stream before key_by"
            )
