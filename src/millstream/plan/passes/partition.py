"""Give every vertex its level and every edge its port."""

from __future__ import annotations

from millstream.graph.job_graph import JobGraph
from millstream.model.ids import StepId
from millstream.plan.fingerprint import Fingerprint
from millstream.plan.partitioned import PartitionedPlan, PlannedEdge, PlannedVertex


def partition(graph: JobGraph, fingerprint: Fingerprint) -> PartitionedPlan:
    """Levels rise by one at each exchange; forward edges keep the level of their deepest input."""
    levels: dict[StepId, int] = {}
    for vertex in graph.vertices:
        # A step with state gets all its rows through the gate of its subtask, also those it takes as they come.
        before = [levels[edge.source] + (edge.is_exchange or vertex.is_keyed) for edge in graph.into(vertex.id)]
        levels[vertex.id] = max(before, default=0)
    edges = tuple(
        PlannedEdge(port=port, edge=edge, from_level=levels[edge.source], to_level=levels[edge.target])
        for port, edge in enumerate(graph.edges)
    )
    return PartitionedPlan(
        graph=graph,
        vertices=tuple(PlannedVertex(vertex=vertex, level=levels[vertex.id]) for vertex in graph.vertices),
        edges=edges,
        parallelism=graph.requirements.parallelism,
        key_groups=graph.requirements.max_parallelism,
        fingerprint=fingerprint,
    )
