"""`Agent`: what a user writes. Its actions are functions of the class, or added to an object of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from millstream.agents.decorators import Trigger, event_types, mark_of
from millstream.agents.functions import PythonFunction, check_action, plain_function


class AgentAction(NamedTuple):
    """An action as it is declared: its function, and the types of events on which it is called."""

    name: str
    function: PythonFunction
    listens_to: tuple[str, ...]
    config: dict[str, Any]


class Agent:
    """An event-driven agent. Subclasses mark their actions; what a base class has is inherited, and replaced by name."""

    @property
    def actions(self) -> dict[str, AgentAction]:
        """By name, in the order in which they are declared: those of the class, then those that were added."""
        return {**_of_class(type(self)), **vars(self).get("_added", {})}

    def add_action(
        self, name: str, events: Sequence[Trigger], func: Callable[..., Any] | PythonFunction, **config: Any
    ) -> Self:
        """Add an action to this object.

        Raises:
            ValueError: there is one of that name.
            TypeError: the function is no action, or it would listen to nothing.
        """
        if name in self.actions:
            msg = f"agent {type(self).__name__} has an action {name!r} already"
            raise ValueError(msg)
        function = func if isinstance(func, PythonFunction) else PythonFunction.from_callable(plain_function(func))
        check_action(name, function.as_callable())
        added: dict[str, AgentAction] = vars(self).setdefault("_added", {})
        added[name] = AgentAction(name, function, event_types(tuple(events), f"action {name!r}"), config)
        return self


def _of_class(kind: type[Agent]) -> dict[str, AgentAction]:
    found: dict[str, AgentAction] = {}
    for base in reversed(kind.__mro__):
        for attribute, declared in vars(base).items():
            mark = mark_of(declared)
            if mark is not None:
                name = mark.name or attribute
                if name in found and found[name].function.qualname.startswith(f"{base.__qualname__}."):
                    msg = f"agent {kind.__name__} has two actions {name!r}"
                    raise ValueError(msg)
                function = plain_function(declared)
                check_action(name, function)
                found[name] = AgentAction(name, PythonFunction.from_callable(function), mark.listens_to, {})
    return found
