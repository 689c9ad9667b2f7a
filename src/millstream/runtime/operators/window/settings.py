"""What the stored content of windows depends on, as it stands in savepoints."""

from __future__ import annotations

from typing import Any

from millstream.graph.operations.window import Window
from millstream.graph.stored_type import canonical
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.operators.aggregate.operator import aggregate_texts
from millstream.runtime.operators.declaration import Settings, row_settings
from millstream.runtime.operators.window.choice import window_of


def window_settings(node: StreamNode) -> Settings:
    """The window, what closes it, its trigger, and what is kept of its rows."""
    operation = window_of(node)
    kept = {"window": operation.window.stored, "closed_by": _closed_by(operation), **_triggered(operation)}
    if operation.aggregates:
        return {**kept, "aggregates": aggregate_texts(operation.aggregates, node)}
    return {**kept, **row_settings(node)}


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
