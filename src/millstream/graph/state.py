"""State descriptors: the declared name, kind, type, version and time to live of a piece of keyed state."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from millstream.graph.function import FunctionRef
from millstream.graph.stored_type import TypeSchema, stored_schema

StateKind = Literal["value", "list", "map", "reducing", "aggregating"]
TtlClock = Literal["processing", "event"]
TtlUpdate = Literal["write", "read"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateDescriptor:
    """One state of a step. `type` is what each value (or list item, or map value) is decoded to."""

    name: str
    kind: StateKind
    type: Any = dataclasses.field(compare=False)
    key_type: Any = dataclasses.field(default=None, compare=False)
    ttl: int | None = None
    ttl_clock: TtlClock = "processing"
    ttl_update: TtlUpdate = "write"
    """Whether only writing, or reading as well, lets the time to live begin anew."""
    type_text: str
    """The type for people; what counts is `schema`."""
    version: int = 1
    migrate: FunctionRef | None = None
    """Turns content of an older version into content of this one: `migrate(content, version)`."""
    schema: TypeSchema = dataclasses.field(init=False)
    """JSON Schema of the content."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", stored_schema(self.content, what=f"state {self.name!r}"))

    @property
    def is_event_timed(self) -> bool:
        """Whether the content expires by event time."""
        return self.ttl is not None and self.ttl_clock == "event"

    @property
    def stored(self) -> list[Any]:
        """What content depends on; it holds a time of writing if it expires, which is read by the clock it was written by."""
        expires = [self.ttl is not None, *(["event"] if self.is_event_timed else [])]
        return [self.name, self.kind, self.schema, self.version, *expires]

    @property
    def content(self) -> Any:
        """The type of everything that is kept for one key."""
        generic: Any = dict if self.kind == "map" else list
        if self.kind == "map":
            return generic[self.key_type, self.type]
        return generic[self.type] if self.kind == "list" else self.type
