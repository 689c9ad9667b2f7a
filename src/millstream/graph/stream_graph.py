"""`StreamGraph`: one node per step, with schemas, expressions and event-time sources resolved and checked."""

from __future__ import annotations

import dataclasses

from millstream.graph.expressions.expression import Expression
from millstream.graph.model import Requirements
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.join import (
    JOINS,
)
from millstream.graph.operations.rank import RANKS
from millstream.graph.operations.watermark import EventTime
from millstream.graph.patterns.rules import Patterns
from millstream.graph.step import (
    MAIN,
    CoProcess,
    Filter,
    KeyedAggregate,
    MapBatches,
    Operation,
    Pattern,
    Process,
    PythonMap,
    Reduce,
    Select,
    Sink,
    Source,
    StepInput,
    Union,
    Window,
    WithColumns,
)
from millstream.model.ids import StepId
from millstream.model.schema import Schema

RUNS_AS: dict[type[Operation], str] = {
    Source: "source",
    EventTime: "batch",
    Filter: "expression",
    Select: "expression",
    WithColumns: "expression",
    PythonMap: "python",
    MapBatches: "batch",
    Union: "batch",
    KeyedAggregate: "keyed",
    Reduce: "keyed",
    Process: "keyed",
    CoProcess: "keyed",
    **dict.fromkeys((*JOINS, *RANKS), "keyed"),
    Lookup: "batch",
    AsyncMap: "python",
    Window: "keyed",
    Pattern: "keyed",
    Patterns: "keyed",
    Sink: "sink",
}


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
    expressions: tuple[tuple[str, Expression], ...] = ()
    event_time: tuple[StepId, ...] = ()
    """The event-time steps whose watermarks this node sees."""
    has_given_id: bool = False
    other_schema: Schema | None = None
    """Of the second input of a step that takes two."""
    starts_chain: bool = False
    """Whether its author wants it to start a chain."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Key columns, empty when not keyed."""
        return self.inputs[0].keys if self.inputs else ()

    @property
    def runs_as(self) -> str:
        """`source`, `expression`, `batch`, `python`, `keyed` or `sink`."""
        return RUNS_AS[type(self.operation)]


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
