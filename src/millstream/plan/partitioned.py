"""`PartitionedPlan`: where every vertex runs: its level, its subtasks, and how rows reach it."""

from __future__ import annotations

import dataclasses

from millstream.graph.job_graph import JobEdge, JobGraph, Vertex
from millstream.plan.fingerprint import Fingerprint


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEdge:
    """An edge with the levels it joins. `port` orders the inputs of a vertex and names the edge in payloads."""

    port: int
    edge: JobEdge
    from_level: int
    to_level: int

    def __post_init__(self) -> None:
        assert self.to_level >= self.from_level, "rows never flow to a lower level"

    @property
    def is_local(self) -> bool:
        """Whether rows stay inside the task: a forward edge within one level."""
        return self.from_level == self.to_level


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVertex:
    """A vertex and its level: 0 before the first exchange, else one above its deepest exchanged input."""

    vertex: Vertex
    level: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedPlan:
    """Levels, parallelism, key groups, edge policies, acknowledgement set and fingerprint of a job."""

    graph: JobGraph
    vertices: tuple[PlannedVertex, ...]
    edges: tuple[PlannedEdge, ...]
    parallelism: int
    key_groups: int
    fingerprint: Fingerprint

    @property
    def depth(self) -> int:
        """Levels above 0, which is the number of shuffles."""
        return max(planned.level for planned in self.vertices)

    @property
    def acknowledgements(self) -> tuple[str, ...]:
        """The tasks that must report before an epoch may become durable: every subtask of every level above 0.

        Level 0 has as many tasks as the epoch has splits; their number stands in the reports themselves.
        """
        return tuple(f"{level}/{subtask}" for level in range(1, self.depth + 1) for subtask in range(self.parallelism))

    def at_level(self, level: int) -> list[PlannedVertex]:
        """Vertices of a level in topological order."""
        return [planned for planned in self.vertices if planned.level == level]
