"""`ActionTask`: one action that is to be called with one event, and what identifies that call."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.agents.events.event import Event
from millstream.agents.plan.agent_plan import ActionPlan

if TYPE_CHECKING:
    from millstream.agents.runs.run import AgentRun


class ActionTask:
    """One call. It is an execution: events that are built in it take their ids from it."""

    __slots__ = ("_built", "_execution_id", "_ordinal", "_parent", "_run", "_sent", "action", "event", "function")

    def __init__(
        self,
        run: AgentRun,
        action: ActionPlan,
        function: Callable[..., Any],
        event: Event,
        parent: ActionTask | None,
        ordinal: int,
    ) -> None:
        self._run, self.action, self.function, self.event = run, action, function, event
        self._parent, self._ordinal = parent, ordinal
        self._execution_id: uuid.UUID | None = None
        self._built = self._sent = 0

    @property
    def name(self) -> str:
        """The action."""
        return self.action.name

    @property
    def path(self) -> str:
        """Its parent's path, the number of the event among those its parent sent, and the action."""
        above = "" if self._parent is None else f"{self._parent.path}/"
        return f"{above}{self._ordinal}:{self.name}"

    @property
    def execution_id(self) -> uuid.UUID:
        """Made at the first look."""
        if self._execution_id is None:
            self._execution_id = uuid.uuid5(self._run.run_id, self.path)
        return self._execution_id

    def next_number(self) -> int:
        """Counts the events that are built in it."""
        self._built += 1
        return self._built

    def next_sent(self) -> int:
        """Counts the events that it sends."""
        self._sent += 1
        return self._sent
