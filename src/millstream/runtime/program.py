"""The compiled vertices of one level: stages and operators, built once per process."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from millstream.contract.sink import SinkWriter
from millstream.graph.job_graph import Vertex
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import is_written_directly, sink_declaration
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.partitioned import PlannedEdge
from millstream.records.canonical_keys import float_columns
from millstream.registry import load
from millstream.runtime.chain.stages import Stage, build_stages
from millstream.runtime.functions.life import LivingFunctions
from millstream.runtime.operators.contract import KeyedOperator
from millstream.runtime.operators.kinds import kind_of, stores_of
from millstream.runtime.operators.layouts import layouts_of
from millstream.state.transfer.evolve import SlotCode, Slots


class LevelProgram:
    """The compiled vertices of one level; built once per process and used for every epoch."""

    def __init__(self, deployment: DeploymentPlan, level: int) -> None:
        self.deployment, self.level = deployment, level
        plan = deployment.plan
        self.functions = LivingFunctions(job=deployment.name, parallelism=plan.parallelism, params=deployment.params)
        self.vertices = [self.functions.adopted(planned.vertex) for planned in plan.at_level(level)]
        self.edges = plan.edges
        self.layouts = layouts_of(deployment)
        self.float_keys = {edge.port: self._float_keys(edge) for edge in plan.edges if edge.from_level == level}
        """By port, the keys of an edge that have more than one form of a value and are grouped by."""
        self.senders = {
            edge.port: kind_of(self.node(edge.edge.target)).sender
            for edge in plan.edges
            if edge.from_level == level and edge.edge.partition == "hash"
        }
        """By port of a keyed edge, the sending half of the operator behind it; `None` where it has none."""
        self.stages: dict[str, list[Stage]] = {}
        self._entered: dict[str, list[Stage]] = {}
        self.operators: dict[str, KeyedOperator] = {}
        for vertex in self.vertices:
            self._compile(vertex)

    def _float_keys(self, planned: PlannedEdge) -> tuple[str, ...]:
        edge = planned.edge
        if not edge.keys or kind_of(self.node(edge.target)).keeps_key_form:
            return ()
        return float_columns(edge.keys, self.node(edge.source_step).outputs[edge.output])

    def _compile(self, vertex: Vertex) -> None:
        body = [node for node in vertex.nodes if not isinstance(node.operation, (Source, Sink))]
        if vertex.is_keyed:
            memory = self.deployment.memory
            self.operators[vertex.id] = kind_of(body[0]).operator(
                body[0], key_groups=self.deployment.plan.key_groups, page_bytes=memory.page_bytes
            )
            body = body[1:]
        self.stages[vertex.id] = build_stages(body)

    def stages_from(self, vertex: Vertex, step: str) -> list[Stage]:
        """The stages of a chain from one of its steps on, compiled when first asked for; behind a source, all of them."""
        if step not in self._entered:
            behind = itertools.dropwhile(lambda node: node.id != step, vertex.nodes)
            body = [node for node in behind if not isinstance(node.operation, (Source, Sink))]
            self._entered[step] = build_stages(body)
        return self._entered[step]

    def sink_writer(self, node: StreamNode) -> Callable[..., SinkWriter]:
        """The writer of a sink: one that stages, or one whose rows are visible at once."""
        assert isinstance(node.operation, Sink)
        declared = sink_declaration(node.operation.connector)
        is_direct = is_written_directly(node.operation.connector, self.deployment.plan.graph.requirements.guarantee)
        writer: Callable[..., SinkWriter] = load(declared.direct_writer if is_direct else declared.writer)
        return writer

    def slots(self, uid: str) -> Slots:
        """The types and migrations of a step's slots, by its uid."""
        stores = [store for vertex in self.vertices if vertex.is_keyed for store in stores_of(vertex.head)]
        content = next(store.content for store in stores if store.uid == uid)
        slots = content if isinstance(content, tuple) else ()
        return {slot.name: SlotCode(type=slot.content, migrate=slot.migrate) for slot in slots}

    @property
    def is_last(self) -> bool:
        """Whether nothing but the driver comes behind this level."""
        return self.level == self.deployment.plan.depth

    def vertex(self, vertex_id: str) -> Vertex:
        """A vertex of this level by its id."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def vertex_of(self, step: str) -> Vertex:
        """The vertex of this level that a step stands in."""
        return next(vertex for vertex in self.vertices if any(node.id == step for node in vertex.nodes))

    def level_of(self, step: str) -> int:
        """The level of a step."""
        planned = self.deployment.plan.vertices
        return next(each.level for each in planned if any(node.id == step for node in each.vertex.nodes))

    def place(self, step: str) -> int:
        """The place of a step among all of the plan."""
        nodes = (node for planned in self.deployment.plan.vertices for node in planned.vertex.nodes)
        return next(place for place, node in enumerate(nodes) if node.id == step)

    def node(self, step: str) -> StreamNode:
        """The node of a step, of any level."""
        for planned in self.deployment.plan.vertices:
            for node in planned.vertex.nodes:
                if node.id == step:
                    return node
        raise KeyError(step)
