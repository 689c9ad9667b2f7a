"""Event-driven agents on keyed streams."""

from millstream.agents.agent import Agent
from millstream.agents.decorators import action
from millstream.agents.events.event import Event, EventType, InputEvent, OutputEvent
from millstream.agents.functions import PythonFunction
from millstream.agents.memory.objects import MemoryObject, MemoryRef, MemoryType
from millstream.agents.plan.agent_plan import AgentPlan
from millstream.agents.runs.context import RunnerContext

__all__ = [
    "Agent",
    "AgentPlan",
    "Event",
    "EventType",
    "InputEvent",
    "MemoryObject",
    "MemoryRef",
    "MemoryType",
    "OutputEvent",
    "PythonFunction",
    "RunnerContext",
    "action",
]
