"""How the state of each keyed step of a plan is laid out, and what its content depends on."""

from __future__ import annotations

import pyarrow as pa

from millstream.graph.stream_graph import StreamNode
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.operators.kinds import kind_of
from millstream.state.layout import StateLayout, columns_ddl, columns_text, slot_layout
from millstream.state.slots import Store


def layouts_of(deployment: DeploymentPlan) -> dict[str, StateLayout]:
    """The layouts of all keyed steps of a plan, by uid."""
    plan = deployment.plan
    heads = [(planned.vertex.head, planned.level) for planned in plan.vertices if planned.vertex.is_keyed]
    return {
        store.uid: _layout(node, store, level, plan.key_groups)
        for node, level in heads
        for store in kind_of(node).stores(node)
    }


def _layout(node: StreamNode, store: Store, level: int, key_groups: int) -> StateLayout:
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
        settings=kind_of(node).settings(node),
        is_broadcast=store.is_broadcast,
    )
