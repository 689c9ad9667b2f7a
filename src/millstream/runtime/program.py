"""The compiled vertices of one level: stages and operators, built once per process."""

from __future__ import annotations

from millstream.graph.job_graph import Vertex
from millstream.graph.step import Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.chain import Stage, build_stages
from millstream.runtime.keyed import KeyedOperator
from millstream.runtime.operators import keyed_operator


class LevelProgram:
    """The compiled vertices of one level; built once per process and used for every epoch."""

    def __init__(self, deployment: DeploymentPlan, level: int) -> None:
        self.deployment, self.level = deployment, level
        plan = deployment.plan
        self.vertices = [planned.vertex for planned in plan.at_level(level)]
        self.edges = plan.edges
        self.stages: dict[str, list[Stage]] = {}
        self.operators: dict[str, KeyedOperator] = {}
        for vertex in self.vertices:
            self._compile(vertex)

    def _compile(self, vertex: Vertex) -> None:
        body = [node for node in vertex.nodes if not isinstance(node.operation, (Source, Sink))]
        if vertex.is_keyed:
            memory = self.deployment.memory
            self.operators[vertex.id] = keyed_operator(
                body[0], key_groups=self.deployment.plan.key_groups, page_bytes=memory.page_bytes
            )
            body = body[1:]
        self.stages[vertex.id] = build_stages(body)

    @property
    def is_last(self) -> bool:
        """Whether nothing but the driver comes behind this level."""
        return self.level == self.deployment.plan.depth

    def node(self, step: str) -> StreamNode:
        """The node of a step, of any level."""
        for planned in self.deployment.plan.vertices:
            for node in planned.vertex.nodes:
                if node.id == step:
                    return node
        raise KeyError(step)
