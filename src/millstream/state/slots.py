"""What a keyed step stores per key: declared once, used by its operator, by layouts and by whoever rewrites its pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.state import StateDescriptor
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.records.value_types import tuple_of

Migrate = Callable[[Any, int], Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot of an entry: a declared state, or what an operator of ours keeps."""

    name: str
    kind: str
    """`value`, `list`, `map`, `reducing` or `aggregating` as declared; `running` or `windows` for operators of ours."""
    content: Any
    """The Python type of the content."""
    version: int = 1
    expires: bool = False
    """Whether the content is stored with the time it was written."""
    clock: str = "processing"
    """Which time that is: `processing` or `event`."""
    migrate: Migrate | None = None

    @property
    def stored_type(self) -> Any:
        """The type of the slot in an entry: the content, or (written at, content)."""
        return tuple_of(int, self.content) if self.expires else self.content


Stored: TypeAlias = tuple[Slot, ...] | pa.Schema
"""The slots of an entry, or the columns of stored rows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One of the stores of a keyed step."""

    uid: str
    """The step's own, or one derived from it where a step keeps several."""
    content: Stored
    keys: Schema
    is_broadcast: bool = False
    """Whether every subtask holds all of it."""


def own_store(node: StreamNode, content: Stored) -> tuple[Store, ...]:
    """The one store of a step that keeps everything under its own uid."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    return (Store(uid=node.uid, content=content, keys=node.input_schema.select(node.keys)),)


def stored_types(slots: tuple[Slot, ...]) -> list[Any]:
    """The types of the slots of an entry, in order."""
    return [slot.stored_type for slot in slots]


def process_slots(operation: Process | CoProcess) -> tuple[Slot, ...]:
    """One slot for each declared state of a key."""
    return slots_of(operation.states)


def slots_of(states: tuple[StateDescriptor, ...]) -> tuple[Slot, ...]:
    """One slot for each declared state."""
    return tuple(
        Slot(
            name=state.name,
            kind=state.kind,
            content=state.content,
            version=state.version,
            expires=state.ttl is not None,
            clock="event" if state.is_event_timed else "processing",
            migrate=None if state.migrate is None else state.migrate.target,
        )
        for state in states
    )


def key_columns(node: StreamNode) -> list[pa.Field]:
    """The key columns of stored rows."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    return [pa.field(key, node.input_schema[key].type) for key in node.keys]
