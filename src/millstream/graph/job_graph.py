"""`JobGraph`: steps fused into chains. A chain is one `Vertex`; rows inside it never leave the task."""

from __future__ import annotations

import dataclasses

from millstream.graph.model import Requirements, mode_of
from millstream.graph.step import MAIN, PartitionKind, partition_text
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.ids import StepId
from millstream.model.mode import Mode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A chain of nodes; named after its first step."""

    id: StepId
    nodes: tuple[StreamNode, ...]

    @property
    def head(self) -> StreamNode:
        """The first node: the only one that may be keyed or a source."""
        return self.nodes[0]

    @property
    def name(self) -> str:
        """The chain in one line."""
        return " → ".join(node.id for node in self.nodes)

    @property
    def is_keyed(self) -> bool:
        """Whether the chain starts with keyed state."""
        return self.head.runs_as == "keyed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobEdge:
    """Rows from an output of a step (inside a vertex) to the head of another vertex."""

    source: StepId
    source_step: StepId
    output: str
    target: StepId
    partition: PartitionKind
    keys: tuple[str, ...] = ()

    @property
    def is_exchange(self) -> bool:
        """Whether rows may change subtask."""
        return self.partition != "forward"

    @property
    def policy(self) -> str:
        """The partition policy in words."""
        return partition_text(self.partition, self.keys)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """Vertices in topological order, and the edges between them."""

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[JobEdge, ...]
    requirements: Requirements

    @property
    def mode(self) -> Mode:
        """The mode of the job."""
        return mode_of({vertex.id: vertex.head.operation for vertex in self.vertices}, self.requirements)

    def vertex(self, vertex_id: StepId) -> Vertex:
        """The vertex with that id."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def into(self, vertex_id: StepId) -> list[JobEdge]:
        """Edges that end in a vertex."""
        return [edge for edge in self.edges if edge.target == vertex_id]


def chains_onto(node: StreamNode, graph: StreamGraph) -> StepId | None:
    """The step this node is fused behind, or `None` when it starts a chain.

    Fused are nodes with one forward input whose main output nobody else reads, unless the author parts them. Side outputs
    leave from inside a chain.
    """
    if len(node.inputs) != 1 or node.starts_chain or not graph.requirements.chaining:
        return None
    edge = node.inputs[0]
    if edge.partition != "forward" or edge.output != MAIN:
        return None
    return edge.step if len(graph.consumers(edge.step)) == 1 else None
