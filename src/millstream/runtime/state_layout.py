"""How a step's state is laid out: what a savepoint must say so that another plan, engine or version can read its pages."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec
import pyarrow as pa

from millstream.graph.aggregate import Aggregate
from millstream.graph.join import Join, WindowJoin
from millstream.graph.rank import Deduplicate, TopN, WindowRank
from millstream.graph.rules import Patterns
from millstream.graph.step import MAIN, KeyedAggregate, Pattern, Reduce, Window
from millstream.graph.stored_type import canonical, stored_schema
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Field, Schema
from millstream.model.types import type_name
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.operators import stores_of
from millstream.runtime.stored import Slot, Store


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


def layouts_of(deployment: DeploymentPlan) -> dict[str, StateLayout]:
    """The layouts of all keyed steps of a plan, by uid."""
    plan = deployment.plan
    return {
        store.uid: _layout(planned.vertex.head, store, planned.level, plan.key_groups)
        for planned in plan.vertices
        if planned.vertex.is_keyed
        for store in stores_of(planned.vertex.head)
    }


def columns_text(schema: pa.Schema) -> str:
    """An Arrow schema as it stands in a layout."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _layout(node: StreamNode, store: Store, level: int, key_groups: int) -> StateLayout:
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    stored = store.content
    is_columnar = isinstance(stored, pa.Schema)
    return StateLayout(
        uid=store.uid,
        operation=node.operation.kind,
        form="columns" if is_columnar else "entries",
        keys=_ddl(store.keys),
        key_groups=key_groups,
        level=level,
        slots=[] if is_columnar else [_slot(slot, node.id) for slot in stored],
        columns=columns_text(stored) if is_columnar else "",
        settings=_settings(node, node.input_schema),
        is_broadcast=store.is_broadcast,
    )


def _slot(slot: Slot, step: str) -> SlotLayout:
    schema = stored_schema(slot.content, what=f"state {slot.name!r} of step {step!r}")
    return SlotLayout(
        name=slot.name,
        kind=slot.kind,
        type=schema,
        version=slot.version,
        expires=slot.expires,
        clock=slot.clock,
    )


def _settings(node: StreamNode, rows: Schema) -> dict[str, Any]:
    operation = node.operation
    match operation:
        case KeyedAggregate():
            return {"aggregates": _aggregates(operation.aggregates, node)}
        case Reduce():
            return {"row": _ddl(rows)}
        case Pattern():
            return {"row": _ddl(rows), "pattern": operation.pattern.version}
        case Patterns():
            return {"row": _ddl(rows)}
        case Window():
            kept: dict[str, Any] = {"window": operation.window.stored, "closed_by": _closed_by(operation)}
            kept |= _triggered(operation)
            if operation.aggregates:
                return {**kept, "aggregates": _aggregates(operation.aggregates, node)}
            return {**kept, "row": _ddl(rows)}
        case Join():
            return {"within": None if operation.lower is None else [operation.lower, operation.upper]}
        case TopN() | Deduplicate():
            return {"by": operation.by, "keeps": operation.n if isinstance(operation, TopN) else operation.keep}
        case WindowJoin() | WindowRank():
            return {"window": operation.window.stored}
        case _:
            return {}


def _closed_by(window: Window) -> str:
    return next(how for how in ("aggregates", "reduce", "process") if getattr(window, how))


def _triggered(operation: Window) -> dict[str, Any]:
    if not operation.is_triggered:
        return {}
    states = [f"{s.name} {s.kind} {canonical(s.schema)} v{s.version}" for s in operation.window_states]
    return {
        "trigger": "default" if operation.trigger is None else operation.trigger.type_text,
        "accumulation": operation.accumulation,
        "keeps": "rows" if operation.keeps_rows else "results",
        **({"window_states": states} if states else {}),
    }


def _aggregates(aggregates: tuple[tuple[str, Aggregate], ...], node: StreamNode) -> list[str]:
    return [_aggregate(name, aggregate, node) for name, aggregate in aggregates]


def _aggregate(name: str, aggregate: Aggregate, node: StreamNode) -> str:
    of = f" of {type_name(dict(node.expressions)[name].type)}" if aggregate.kind == "count_distinct" else ""
    where = "" if aggregate.where is None else " where"
    return f"{name} = {aggregate.kind}{of}{where} as {node.outputs[MAIN][name].type_name}"


def _ddl(schema: Schema) -> str:
    """Columns by name and type; state does not care whether one may be null."""
    return Schema(tuple(Field(field.name, field.type) for field in schema)).ddl
