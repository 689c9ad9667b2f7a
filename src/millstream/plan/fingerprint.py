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
    """What is known of every step, and what its operation says that state depends on."""
    return {
        **node.operation.stored(node),
        "kind": node.operation.kind,
        "inputs": [[uids[edge.step], edge.output, edge.partition, list(edge.keys)] for edge in node.inputs],
        "outputs": {name: schema.ddl for name, schema in node.outputs.items()},
    }


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
