"""`AgentPlan`: what an agent does, as a value with a JSON form that other processes and versions can read."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.agents.functions import PythonFunction

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActionPlan:
    """One action: its function, and the types of events on which it is called."""

    name: str
    exec: PythonFunction
    listen_event_types: tuple[str, ...]
    config: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        function = {"func_type": "PythonFunction", "module": self.exec.module, "qualname": self.exec.qualname}
        return {
            "name": self.name,
            "exec": function,
            "listen_event_types": list(self.listen_event_types),
            "config": None if self.config is None else dict(self.config),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> ActionPlan:
        """From its JSON value."""
        function = PythonFunction(written["exec"]["module"], written["exec"]["qualname"])
        listens_to = tuple(written["listen_event_types"])
        return cls(name=written["name"], exec=function, listen_event_types=listens_to, config=written["config"])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """All actions of an agent, in the order of their declaration, which is the order in which they are called."""

    agent: str
    actions: Mapping[str, ActionPlan]

    @property
    def actions_by_event(self) -> dict[str, list[str]]:
        """Which actions an event of a type calls."""
        found: dict[str, list[str]] = {}
        for each in self.actions.values():
            for kind in each.listen_event_types:
                found.setdefault(kind, []).append(each.name)
        return found

    @property
    def fingerprint(self) -> str:
        """Equal for plans that do the same by the same names."""
        return hashlib.sha256(msgspec.json.encode(self._content())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"version": VERSION, "fingerprint": self.fingerprint, **self._content()}

    def _content(self) -> dict[str, Any]:
        actions = {name: each.to_json() for name, each in self.actions.items()}
        return {"agent": self.agent, "actions": actions, "actions_by_event": self.actions_by_event}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> AgentPlan:
        """From its JSON value.

        Raises:
            ValueError: it was written by a version that this one does not know.
        """
        if written.get("version") != VERSION:
            msg = f"a plan of version {written.get('version')!r} cannot be read; known: {VERSION}"
            raise ValueError(msg)
        actions = {name: ActionPlan.from_json(each) for name, each in written["actions"].items()}
        return cls(agent=written["agent"], actions=actions)
