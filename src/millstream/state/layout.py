"""How a step's state is laid out: what a savepoint must say so that another plan, engine or version can read its pages."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec
import pyarrow as pa

from millstream.graph.stored_type import stored_schema
from millstream.model.schema import Field, Schema
from millstream.state.slots import Slot


class SlotLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One slot of an entry: a declared state of a process function, or what an operator keeps per key."""

    name: str
    kind: str
    """`value`, `list`, `map`, `reducing` or `aggregating` as declared; `running` or `windows` for operators of ours."""
    type: dict[str, Any]
    """JSON schema of the content."""
    version: int = 1
    """Declared version of the content."""
    expires: bool = False
    """Whether the content is stored with the time it was written."""
    clock: str = "processing"
    """Which time that is: `processing` or `event`."""


class StateLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one keyed step."""

    uid: str
    """Whose state it is, whatever the step is called."""
    operation: str
    form: Literal["entries", "columns"]
    """Pages of encoded entries, or pages of Arrow columns."""
    keys: str
    """Key columns as DDL."""
    key_groups: int
    level: int
    slots: list[SlotLayout] = []
    """Form `entries`: the slots of an entry, in order; its timers follow."""
    columns: str = ""
    """Form `columns`: the Arrow schema in IPC form, as base64 text."""
    settings: dict[str, Any] = {}
    """What the content depends on beside its types: window, aggregates, how windows are closed, columns of kept rows."""
    is_broadcast: bool = False
    """Whether every subtask holds all of it: a savepoint has it once."""

    @property
    def column_schema(self) -> pa.Schema:
        """Form `columns`: the Arrow schema of its pages."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))


def columns_text(schema: pa.Schema) -> str:
    """An Arrow schema as it stands in a layout."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def slot_layout(slot: Slot, step: str) -> SlotLayout:
    """One slot as it stands in a layout."""
    schema = stored_schema(slot.content, what=f"state {slot.name!r} of step {step!r}")
    return SlotLayout(
        name=slot.name,
        kind=slot.kind,
        type=schema,
        version=slot.version,
        expires=slot.expires,
        clock=slot.clock,
    )


def columns_ddl(schema: Schema) -> str:
    """Columns by name and type; state does not care whether one may be null."""
    return Schema(tuple(Field(field.name, field.type) for field in schema)).ddl
