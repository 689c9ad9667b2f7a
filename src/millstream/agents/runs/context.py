"""`RunnerContext`: what an action sees of its run and its key."""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from millstream.agents.events.event import Event, EventType
from millstream.agents.memory.objects import MemoryObject, MemoryType
from millstream.agents.memory.view import ActionMemory

if TYPE_CHECKING:
    from millstream.agents.runs.run import AgentRun
    from millstream.agents.runs.task import ActionTask


class RunnerContext:
    """Given to each call of an action; it is of no use when the action has ended.

    Everything in it is the same when an epoch is done again.
    """

    __slots__ = ("__dict__", "_is_over", "_run", "_sensory", "_short_term", "_task")

    def __init__(self, run: AgentRun, task: ActionTask, sensory: ActionMemory, short_term: ActionMemory) -> None:
        self._run, self._task, self._is_over = run, task, False
        self._sensory, self._short_term = sensory, short_term

    def send_event(self, event: Event) -> None:
        """Send an event to the actions that listen to it; an `OutputEvent` leaves the agent.

        What was remembered before is seen by whoever it calls.
        """
        if self._is_over:
            msg = f"action {self._task.name!r} has ended; its context sends nothing more"
            raise RuntimeError(msg)
        if not isinstance(event, Event):
            msg = f"action {self._task.name!r} sends {event!r}; send an Event"
            raise TypeError(msg)
        self.hand_over()
        self._run.sent(self._task, event)

    def hand_over(self) -> None:
        """Let the other actions of the run see what this one has remembered."""
        self._sensory.hand_over()
        self._short_term.hand_over()

    def end(self) -> None:
        """The action has ended."""
        self.hand_over()
        self._is_over = True

    @property
    def sensory_memory(self) -> MemoryObject:
        """What the run remembers: gone when it ends."""
        return MemoryObject(self._sensory, MemoryType.SENSORY)

    @property
    def short_term_memory(self) -> MemoryObject:
        """What is remembered of the key, over all of its runs."""
        return MemoryObject(self._short_term, MemoryType.SHORT_TERM)

    @property
    def key(self) -> Any:
        """The key: its value, or a tuple where several columns are the key."""
        key = self._run.key
        return key[0] if len(key) == 1 else key

    @property
    def run_id(self) -> uuid.UUID:
        """The run: one for each input."""
        return self._run.run_id

    @property
    def execution_id(self) -> uuid.UUID:
        """This execution of the action."""
        return self._task.execution_id

    @property
    def action_name(self) -> str:
        """The action."""
        return self._task.name

    @property
    def action_path(self) -> str:
        """Which action, called by which event of which action before it, back to the input."""
        return self._task.path

    @property
    def attempt(self) -> int:
        """How often the engine had tried the task before."""
        return self._run.step.attempt

    @property
    def timestamp(self) -> int | None:
        """The event time of the input, in milliseconds, where the stream has it."""
        return self._run.timestamp

    @property
    def watermark(self) -> int:
        """The watermark of the epoch."""
        return self._run.step.watermark

    def now_ms(self) -> int:
        """The clock of the epoch."""
        return self._run.step.now

    def uuid(self) -> uuid.UUID:
        """A new id."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    @functools.cached_property
    def random(self) -> random.Random:
        """Random numbers that are the same ones when the epoch is done again."""
        return random.Random(self._task.execution_id.int)

    @property
    def action_config(self) -> Mapping[str, Any]:
        """What was given where the action was added."""
        return MappingProxyType(dict(self._task.action.config or {}))

    def get_action_config_value(self, key: str) -> Any:
        """One value of it, or `None`."""
        return self.action_config.get(key)


def is_output(event: Event) -> bool:
    """Whether an event leaves the agent: it is known by its type."""
    return event.type == EventType.OutputEvent
