"""`StreamGraph`: one node per step, with schemas, expressions and event-time sources resolved and checked."""

from __future__ import annotations

import dataclasses

from millstream.graph.model import Requirements
from millstream.graph.operation import Expressions, Operation, RunsAs
from millstream.graph.step import MAIN, StepInput
from millstream.model.changelog import Changelog
from millstream.model.ids import StepId
from millstream.model.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamNode:
    """A step with everything known about it."""

    id: StepId
    uid: StepId
    operation: Operation
    inputs: tuple[StepInput, ...]
    input_schema: Schema | None
    """Of the first input."""
    outputs: dict[str, Schema]
    expressions: Expressions = ()
    event_time: tuple[StepId, ...] = ()
    """The event-time steps whose watermarks this node sees."""
    has_given_id: bool = False
    other_schema: Schema | None = None
    """Of the second input of a step that takes two."""
    starts_chain: bool = False
    """Whether its author wants it to start a chain."""
    changelog: Changelog | None = None
    """Of what form the changes are that its main output gives, if they are such."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Key columns, empty when not keyed."""
        return self.inputs[0].keys if self.inputs else ()

    @property
    def runs_as(self) -> RunsAs:
        """`source`, `expression`, `batch`, `python`, `keyed` or `sink`."""
        return self.operation.runs_as


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamGraph:
    """Resolved nodes in topological order."""

    name: str
    nodes: tuple[StreamNode, ...]
    requirements: Requirements

    def node(self, step_id: StepId) -> StreamNode:
        """The node with that id."""
        return next(node for node in self.nodes if node.id == step_id)

    def consumers(self, step_id: StepId, output: str = MAIN) -> list[StreamNode]:
        """Nodes that read an output of a step."""
        return [n for n in self.nodes if any(e.step == step_id and e.output == output for e in n.inputs)]
