"""Fingerprints: a hash of what a checkpoint depends on, per step and whole.

In it: uids of steps, edges, partition policies, keys, windows, aggregates, names, types and versions of states, schemas,
connectors, guarantee, key groups. Not in it: intervals, limits, parallelism, expression text and the names of functions and
classes, which may change freely; nor ids of steps that were renamed with `uid=`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.operations.rank import WindowRank
from millstream.graph.patterns.rules import Patterns
from millstream.graph.state import StateDescriptor
from millstream.graph.step import CoProcess, KeyedAggregate, Pattern, Process, Sink, Source, Window
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.ids import StepId

FORMAT = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The whole hash and one per step uid."""

    whole: str
    steps: dict[str, str]

    def changes(self, other: Fingerprint) -> list[str]:
        """What differs from `other`, one sentence per step; empty when equal."""
        if self.whole == other.whole:
            return []
        added = [f"step {name!r} is new" for name in self.steps if name not in other.steps]
        dropped = [f"step {name!r} is gone" for name in other.steps if name not in self.steps]
        changed = [
            f"step {name!r} has other keys, state, schema or inputs"
            for name, content in self.steps.items()
            if name in other.steps and other.steps[name] != content
        ]
        return added + dropped + changed or ["guarantee or key groups changed"]


def fingerprint_of(graph: StreamGraph) -> Fingerprint:
    """Hash a resolved graph."""
    uids = {node.id: node.uid for node in graph.nodes}
    steps: dict[str, str] = {node.uid: _hash(_content(node, uids)) for node in graph.nodes}
    requirements = graph.requirements
    whole = _hash(
        {
            "format": FORMAT,
            "steps": steps,
            "guarantee": requirements.guarantee,
            "key_groups": requirements.max_parallelism,
        }
    )
    return Fingerprint(whole=whole, steps=steps)


def _content(node: StreamNode, uids: Mapping[StepId, StepId]) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": node.operation.kind,
        "inputs": [[uids[edge.step], edge.output, edge.partition, list(edge.keys)] for edge in node.inputs],
        "outputs": {name: schema.ddl for name, schema in node.outputs.items()},
    }
    operation = node.operation
    if isinstance(operation, (Source, Sink)):
        content["connector"] = operation.connector.name
    if isinstance(operation, (Process, CoProcess)):
        content["states"] = [_state(state) for state in operation.states]
    if isinstance(operation, CoProcess):
        content["broadcast"] = [[s.name, s.schema, s.version] for s in operation.broadcast]
    if isinstance(operation, (KeyedAggregate, Window)):
        content["aggregates"] = [_aggregate(name, aggregate, node) for name, aggregate in operation.aggregates]
    if isinstance(operation, KeyedAggregate):
        # Results after every row are kept entry by entry, others as columns.
        content["kept_as"] = "entries" if operation.emit == "row" else "columns"
    if isinstance(operation, Window):
        content["window"] = operation.window.stored
        content |= _triggered(operation)
        content["closed_by"] = next(how for how in ("aggregates", "reduce", "process") if getattr(operation, how))
    if isinstance(operation, WindowRank):
        content["window"] = operation.window.stored
    if isinstance(operation, Pattern):
        content["pattern"] = operation.pattern.version
        content["order_by"] = list(operation.order_by)
    if isinstance(operation, Patterns):
        content["order_by"] = list(operation.order_by)
    return content


def _triggered(operation: Window) -> dict[str, Any]:
    """What windows that fire otherwise than by default keep."""
    if not operation.is_triggered:
        return {}
    return {
        "trigger": None if operation.trigger is None else operation.trigger.type_text,
        "accumulation": operation.accumulation,
        "keeps_rows": operation.keeps_rows,
        "states": [_state(state) for state in operation.key_states],
        "window_states": [_state(state) for state in operation.window_states],
    }


def _aggregate(name: str, aggregate: Aggregate, node: StreamNode) -> list[str]:
    """What is stored follows from the kind and the output type, but for distinct values, which are of the input's type."""
    stored = [str(dict(node.expressions)[name].type)] if aggregate.kind == "count_distinct" else []
    return [name, aggregate.kind, *stored, *(["where"] if aggregate.where is not None else [])]


def _state(state: StateDescriptor) -> list[Any]:
    """A time of writing is stored if the state expires, and read by the clock it was written by."""
    expires = [state.ttl is not None, *(["event"] if state.is_event_timed else [])]
    return [state.name, state.kind, state.schema, state.version, *expires]


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
