"""Compile an agent into its plan: pure, no network, nothing is opened."""

from __future__ import annotations

from millstream.agents.agent import Agent, AgentAction
from millstream.agents.plan.agent_plan import ActionPlan, AgentPlan


def compile_agent(agent: Agent) -> AgentPlan:
    """The plan of an agent.

    Raises:
        TypeError: an action has a wrong signature.
        ValueError: it has no action.
    """
    actions = agent.actions
    if not actions:
        msg = f"agent {type(agent).__name__} has no action; mark one with @action(InputEvent)"
        raise ValueError(msg)
    return AgentPlan(agent=type(agent).__name__, actions={name: _planned(each) for name, each in actions.items()})


def _planned(action: AgentAction) -> ActionPlan:
    return ActionPlan(
        name=action.name,
        exec=action.function,
        listen_event_types=action.listens_to,
        config=action.config or None,
    )
