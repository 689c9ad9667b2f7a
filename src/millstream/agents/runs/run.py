"""`AgentRun`: one input of a key, and the actions that it causes, first come, first called."""

from __future__ import annotations

import collections
import uuid
from typing import Any

from millstream.agents.events.codec import checked_copy
from millstream.agents.events.event import Event, InputEvent
from millstream.agents.events.origin import current
from millstream.agents.memory.tree import MemoryTree
from millstream.agents.memory.view import PrivateMemory, SharedMemory
from millstream.agents.runs.context import RunnerContext, is_output
from millstream.agents.runs.identity import Occurrence
from millstream.agents.runs.step import MOST_EVENTS, Called, EpochOfStep
from millstream.agents.runs.task import ActionTask
from millstream.runtime.bad_records import USER_PROBLEMS, UserProblem


class ActionFailed(Exception):
    """An action raised; the cause is what it raised."""

    def __init__(self, task: ActionTask, problem: UserProblem) -> None:
        super().__init__(f"action {task.name!r} ({task.path}) failed")
        self.problem = problem


class AgentRun:
    """All work of one input. Its actions are called one after the other; those that wait let the next ones begin."""

    def __init__(
        self, step: EpochOfStep, place: int, occurrence: Occurrence, row: Any, timestamp: int | None, memory: MemoryTree
    ) -> None:
        self.step, self.place, self.timestamp = step, place, timestamp
        self._occurrence = occurrence
        self._run_id: uuid.UUID | None = None
        self._short_term, self._sensory = memory, MemoryTree()
        self._queue: collections.deque[tuple[Called, ActionTask]] = collections.deque()
        self.outputs: list[Any] = []
        self.events = 0
        self._dispatch(None, InputEvent(row), 0)

    @property
    def key(self) -> tuple[Any, ...]:
        """The values of the key columns."""
        return self._occurrence.key

    @property
    def run_id(self) -> uuid.UUID:
        """Made at the first look."""
        if self._run_id is None:
            self._run_id = self._occurrence.run_id
        return self._run_id

    def sent(self, task: ActionTask, event: Event) -> None:
        """An action sends an event: out of the agent, or to the end of the queue."""
        event.sent_by(task.name, task.event.id if event.type in self.step.actions.by_event else None)
        if is_output(event):
            self.outputs.append(checked_copy(event.attributes.get("output"), f"the output of action {task.name!r}"))
            return
        self._dispatch(task, event, task.next_sent())

    def _dispatch(self, parent: ActionTask | None, event: Event, ordinal: int) -> None:
        self.events += 1
        if self.events > MOST_EVENTS:
            msg = f"the run of key {self.key!r} sends more than {MOST_EVENTS} events: does an action listen to what it sends?"
            raise RuntimeError(msg)
        listening = self.step.actions.by_event.get(event.type, ())
        for each in listening:
            wanted: type[Event] = each.event_class or type(event)
            # Each action has a copy of its own.
            copied = wanted.from_event(event)
            self._queue.append((each, ActionTask(self, each.action, each.function, copied, parent, ordinal)))

    def next(self) -> tuple[Called, ActionTask] | None:
        """The next action to call."""
        return self._queue.popleft() if self._queue else None

    def call(self, task: ActionTask) -> None:
        """Call an action to its end.

        Raises:
            ActionFailed: it raised.
        """
        context = RunnerContext(self, task, SharedMemory(self._sensory), SharedMemory(self._short_term))
        reset = current.set(task)
        try:
            self._check(task, task.function(task.event, context))
            context.end()
        except USER_PROBLEMS as problem:
            raise ActionFailed(task, problem) from problem
        finally:
            current.reset(reset)

    async def wait_for(self, task: ActionTask) -> None:
        """Call an action that may wait in between.

        Raises:
            ActionFailed: it raised.
        """
        context = RunnerContext(self, task, PrivateMemory(self._sensory), PrivateMemory(self._short_term))
        current.set(task)
        try:
            self._check(task, await task.function(task.event, context))
            context.end()
        except USER_PROBLEMS as problem:
            raise ActionFailed(task, problem) from problem

    def undo(self) -> None:
        """The run failed: the memory of the key is as it was before it."""
        self._short_term.undo()

    def _check(self, task: ActionTask, returned: object) -> None:
        if returned is not None:
            msg = f"action {task.name!r} returns {type(returned).__qualname__}; an action returns nothing, and sends events"
            raise TypeError(msg)
