"""`Event`, and the events that every agent knows: what came in, and what goes out."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Final, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from millstream.agents.events.codec import checked_copy
from millstream.agents.events.origin import EventOrigin


class EventType:
    """The types of built-in events."""

    InputEvent: Final = "_input_event"
    OutputEvent: Final = "_output_event"


class Event(BaseModel):
    """Something that happened in a run, with a type that actions listen to and attributes that have a written form.

    Raises:
        TypeError: an attribute has no written form.
    """

    model_config = ConfigDict(extra="allow")
    EVENT_TYPE: ClassVar[str]
    """The type that a class of events stands for, so that actions can listen to the class."""

    type: str
    attributes: dict[str, Any] = Field(default_factory=dict)
    upstream_event_id: uuid.UUID | None = None
    """The event on which the action that sent this one was called."""
    upstream_action_name: str | None = None
    """The action that sent it."""
    _origin: EventOrigin = PrivateAttr()

    def __init__(self, type: str, attributes: dict[str, Any] | None = None, **given: Any) -> None:
        known = given.pop("id", None)
        copied = _attributes(type, attributes or {})
        if given or not isinstance(type, str):
            for name in given.keys() - _FIELDS:
                given[name] = checked_copy(given[name], f"event {type!r}, {name!r}")
            super().__init__(type=type, attributes=copied, **given)
        else:
            # What pydantic would do, at a fifth of its price: events are built for every row.
            _assemble(self, _fields(type, copied), {}, set())
        self.__pydantic_private__ = {"_origin": EventOrigin(uuid.UUID(known) if isinstance(known, str) else known)}

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__pydantic_private__":
            object.__setattr__(self, name, value)
            return
        if name == "attributes":
            value = _attributes(self.type, value)
        elif not name.startswith("_") and name not in _FIELDS:
            value = checked_copy(value, f"event {self.type!r}, {name!r}")
        super().__setattr__(name, value)

    @property
    def id(self) -> uuid.UUID:
        """The same whenever the epoch is done again."""
        return self._origin.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash(self.id)

    def get_type(self) -> str:
        """Its type."""
        return self.type

    def get_attr(self, name: str) -> Any:
        """An attribute, or `None`."""
        return self.attributes.get(name)

    def set_attr(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.attributes[name] = checked_copy(value, f"event {self.type!r}, attribute {name!r}")

    @classmethod
    def from_event(cls, event: Event) -> Self:
        """The same event as one of this class, with attributes of its own."""
        made = cls.__new__(cls)
        fields = {**event.__dict__, "attributes": _attributes(event.type, event.attributes)}
        _assemble(made, fields, dict(event.__pydantic_extra__ or {}), event.__pydantic_fields_set__)
        made.__pydantic_private__ = {"_origin": event._origin}
        return made

    def sent_by(self, action: str, event_id: uuid.UUID | None) -> None:
        """Note who sent it, and upon which event."""
        self.__dict__.update(upstream_action_name=action, upstream_event_id=event_id)

    @classmethod
    def from_json(cls, json_str: str) -> Self:
        """An event as it was written.

        Raises:
            ValueError: it is no JSON object, or has no type.
        """
        fields = msgspec.json.decode(json_str)
        if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
            msg = f"an event is a JSON object with a type; found {json_str[:80]!r}"
            raise ValueError(msg)  # noqa: TRY004 - the text is wrong, not its type
        event = Event(**fields)
        return event if cls is Event else cls.from_event(event)  # type: ignore[return-value]

    @model_serializer(mode="wrap")
    def _with_id(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"id": self.id, **fields(self)}


_FIELDS = frozenset(Event.model_fields)


def _assemble(event: Event, fields: dict[str, Any], extra: dict[str, Any], given: set[str]) -> None:
    for name, value in (
        ("__dict__", fields),
        ("__pydantic_extra__", extra),
        ("__pydantic_fields_set__", given),
    ):
        object.__setattr__(event, name, value)


def _fields(type: str, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"type": type, "attributes": attributes, "upstream_event_id": None, "upstream_action_name": None}


def _attributes(type: str, attributes: Any) -> dict[str, Any]:
    if not isinstance(attributes, dict):
        msg = f"attributes of event {type!r} are a dict; found {attributes!r}"
        raise TypeError(msg)
    copied: dict[str, Any] = checked_copy(attributes, f"event {type!r}")
    return copied


class InputEvent(Event):
    """A row that came in for a key."""

    EVENT_TYPE = EventType.InputEvent

    def __init__(self, input: Any) -> None:
        super().__init__(self.EVENT_TYPE, {"input": input})

    @property
    def input(self) -> Any:
        """The row."""
        return self.attributes["input"]


class OutputEvent(Event):
    """A row that leaves the agent. It is known by its type, and goes to no action."""

    EVENT_TYPE = EventType.OutputEvent

    def __init__(self, output: Any) -> None:
        super().__init__(self.EVENT_TYPE, {"output": output})

    @property
    def output(self) -> Any:
        """The row."""
        return self.attributes["output"]
