"""How the state of each keyed step of a plan is laid out, and what its content depends on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.graph.operations.aggregate import Aggregate, KeyedAggregate, Reduce
from millstream.graph.operations.join import Join, WindowJoin
from millstream.graph.operations.pattern import Pattern
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank
from millstream.graph.operations.rules import Patterns
from millstream.graph.operations.window import Window
from millstream.graph.step import MAIN
from millstream.graph.stored_type import canonical
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.model.types import type_name
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.operators.kinds import stores_of
from millstream.state.layout import StateLayout, columns_ddl, columns_text, slot_layout
from millstream.state.slots import Store


def layouts_of(deployment: DeploymentPlan) -> dict[str, StateLayout]:
    """The layouts of all keyed steps of a plan, by uid."""
    plan = deployment.plan
    return {
        store.uid: _layout(planned.vertex.head, store, planned.level, plan.key_groups)
        for planned in plan.vertices
        if planned.vertex.is_keyed
        for store in stores_of(planned.vertex.head)
    }


def _layout(node: StreamNode, store: Store, level: int, key_groups: int) -> StateLayout:
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    stored = store.content
    is_columnar = isinstance(stored, pa.Schema)
    return StateLayout(
        uid=store.uid,
        operation=node.operation.kind,
        form="columns" if is_columnar else "entries",
        keys=columns_ddl(store.keys),
        key_groups=key_groups,
        level=level,
        slots=[] if is_columnar else [slot_layout(slot, node.id) for slot in stored],
        columns=columns_text(stored) if is_columnar else "",
        settings=_settings(node, node.input_schema),
        is_broadcast=store.is_broadcast,
    )


def _settings(node: StreamNode, rows: Schema) -> dict[str, Any]:
    operation = node.operation
    match operation:
        case KeyedAggregate():
            return {"aggregates": _aggregates(operation.aggregates, node)}
        case Reduce():
            return {"row": columns_ddl(rows)}
        case Pattern():
            return {"row": columns_ddl(rows), "pattern": operation.pattern.version}
        case Patterns():
            return {"row": columns_ddl(rows)}
        case Window():
            kept: dict[str, Any] = {"window": operation.window.stored, "closed_by": _closed_by(operation)}
            kept |= _triggered(operation)
            if operation.aggregates:
                return {**kept, "aggregates": _aggregates(operation.aggregates, node)}
            return {**kept, "row": columns_ddl(rows)}
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
