"""What all runs of an agent step share in one epoch: its actions as they are called, and its times."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.agents.plan.agent_plan import ActionPlan, AgentPlan

MOST_EVENTS = 10_000
"""Events of one run; one that sends more goes round in circles."""


class Called(NamedTuple):
    """An action, and how it is called."""

    action: ActionPlan
    function: Callable[..., Any]
    event_class: type | None
    """The class of event that it wants, where it says so."""
    is_async: bool


class AgentActions:
    """The actions of a plan by the events they listen to; made once per process."""

    def __init__(self, plan: AgentPlan) -> None:
        called = {name: _called(each) for name, each in plan.actions.items()}
        self.by_event = {kind: [called[name] for name in names] for kind, names in plan.actions_by_event.items()}
        self.is_async = any(each.is_async for each in called.values())


class EpochOfStep(NamedTuple):
    """One epoch of the step in one subtask."""

    actions: AgentActions
    now: int
    watermark: int
    attempt: int
    """How often the engine had tried the task before."""


def _called(action: ActionPlan) -> Called:
    function = action.exec.as_callable()
    return Called(action, function, _event_class(function), asyncio.iscoroutinefunction(function))


def _event_class(function: Callable[..., Any]) -> type | None:
    """The class of event that an action is annotated with, if it is one of its own."""
    from millstream.agents.events.event import Event

    first = next(iter(inspect.signature(function, eval_str=True).parameters.values()))
    annotated = first.annotation
    is_own = isinstance(annotated, type) and issubclass(annotated, Event) and annotated is not Event
    return annotated if is_own else None
