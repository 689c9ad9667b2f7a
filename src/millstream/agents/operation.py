"""The agent step of a job: its agent, and the rows that it gives."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, Self

from millstream.agents.agent import Agent
from millstream.agents.plan.agent_plan import AgentPlan
from millstream.agents.plan.compile import compile_agent
from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.outputs import OnError, with_dead
from millstream.graph.step import MAIN
from millstream.model.schema import Schema

_MEMORY_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunAgent(Operation):
    """An agent on a keyed stream: each row is an input of its key."""

    kind = "agent"
    runs_as = "keyed"
    operator = "millstream.agents.operator:AGENT"
    agent: FunctionRef
    schema: Schema
    on_error: OnError = "fail"

    @classmethod
    def of(cls, agent: Any, schema: Schema, on_error: OnError, label: str) -> Self:
        """The step of an agent as users give it: an object, a class, or `module:Class`; `label` names it in messages.

        Raises:
            InvalidStep: it is no agent, or one that cannot be compiled.
        """
        if isinstance(agent, type) and issubclass(agent, Agent):
            agent = agent()
        reference = function_ref(agent, step=label)
        _check_agent(reference, label)
        return cls(agent=reference, schema=schema, on_error=on_error)

    @property
    def plan(self) -> AgentPlan:
        """What the agent does."""
        return compile_agent(self.agent.target)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The outputs of the agent."""
        del step, schemas
        return (), with_dead({MAIN: self.schema}, self.on_error)

    def describe(self) -> str:
        """The agent."""
        return self.agent.describe()

    def facts(self) -> Iterator[tuple[str, str]]:
        """Its actions, and what calls them."""
        for each in self.plan.actions.values():
            yield "action", f"{each.name} on {', '.join(each.listen_event_types)}"

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """How memory is written; what the agent does may change."""
        del node
        return {"memory": _MEMORY_VERSION}

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The agent is checked as it is where a job is written in Python."""
        if "agent" in fields:
            _check_agent(fields["agent"], step)
        return fields


def _check_agent(reference: FunctionRef, step: str) -> None:
    """Refuse what is no agent, and what cannot be compiled."""
    if not isinstance(reference.target, Agent):
        msg = "agent takes an Agent"
        hint = "subclass millstream.agents.Agent"
        raise InvalidStep(msg, code="AGENT-001", step=step, found=reference.name, hint=hint)
    try:
        json.dumps(compile_agent(reference.target).to_json())
    except (TypeError, ValueError) as problem:
        msg = "the agent cannot be compiled"
        raise InvalidStep(msg, code="AGENT-002", step=step, found=str(problem), hint="mend the action") from problem
