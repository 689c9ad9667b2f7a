"""Fingerprints: a hash of what a checkpoint depends on, per step and whole.

In it: steps, edges, partition policies, keys, windows, aggregates, state descriptors, schemas, connectors, guarantee,
key groups. Not in it: intervals, limits, parallelism, expression text and function names, which may change freely.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from millstream.graph.step import KeyedAggregate, Process, Sink, Source, Window
from millstream.graph.stream_graph import StreamGraph, StreamNode

FORMAT = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The whole hash and one per step id."""

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
    steps: dict[str, str] = {node.id: _hash(_content(node)) for node in graph.nodes}
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


def _content(node: StreamNode) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": node.operation.kind,
        "inputs": [[edge.step, edge.output, edge.partition, list(edge.keys)] for edge in node.inputs],
        "outputs": {name: schema.ddl for name, schema in node.outputs.items()},
    }
    operation = node.operation
    if isinstance(operation, (Source, Sink)):
        content["connector"] = operation.connector.name
    if isinstance(operation, Process):
        content["states"] = [[s.name, s.kind, s.type_text, s.ttl is not None] for s in operation.states]
    if isinstance(operation, (KeyedAggregate, Window)):
        content["aggregates"] = [[name, aggregate.kind] for name, aggregate in operation.aggregates]
    if isinstance(operation, KeyedAggregate):
        # Results after every row are kept entry by entry, others as columns.
        content["kept_as"] = "entries" if operation.emit == "row" else "columns"
    if isinstance(operation, Window):
        content["window"] = dataclasses.asdict(operation.window)
        content["closed_by"] = next(how for how in ("aggregates", "reduce", "process") if getattr(operation, how))
    return content


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
