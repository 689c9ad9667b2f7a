"""Fuse steps into chains."""

from __future__ import annotations

from millstream.graph.job_graph import JobEdge, JobGraph, Vertex, chains_onto
from millstream.graph.step import StepInput
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.ids import StepId


def chain(graph: StreamGraph) -> JobGraph:
    """One vertex per chain, one edge per input that is not fused."""
    vertex_of: dict[StepId, StepId] = {}
    members: dict[StepId, list[StreamNode]] = {}
    edges: list[JobEdge] = []
    for node in graph.nodes:
        before = chains_onto(node, graph)
        if before is not None:
            vertex_of[node.id] = vertex_of[before]
            members[vertex_of[before]].append(node)
            continue
        vertex_of[node.id] = node.id
        members[node.id] = [node]
        edges += [_edge(edge, vertex_of[edge.step], node.id) for edge in node.inputs]
    vertices = tuple(Vertex(id=head, nodes=tuple(nodes)) for head, nodes in members.items())
    return JobGraph(name=graph.name, vertices=vertices, edges=tuple(edges), requirements=graph.requirements)


def _edge(edge: StepInput, source: StepId, target: StepId) -> JobEdge:
    return JobEdge(
        source=source,
        source_step=edge.step,
        output=edge.output,
        target=target,
        partition=edge.partition,
        keys=edge.keys,
    )
