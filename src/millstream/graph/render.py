"""Graphs for people: one step in words, a graph as text, and any grouping of steps as a Mermaid flowchart."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import assert_never

from millstream.graph.function import FunctionRef
from millstream.graph.job_graph import JobEdge, JobGraph, Vertex
from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.join import Join, JoinOperation, TemporalJoin, WindowJoin
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank
from millstream.graph.operations.watermark import EventTime
from millstream.graph.patterns.rules import Patterns
from millstream.graph.state import StateDescriptor
from millstream.graph.step import (
    KEYED,
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
    partition_text,
)
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.graph.windows.window import duration_text
from millstream.model.connector import ConnectorSpec
from millstream.model.ids import StepId

DERIVED = "derived from its path"
DERIVED_STATE = "derived from its path; give id= before you rely on its state"
_LONGEST = 60
_ENTITIES = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "`": "#96;", "\n": " ", "\r": " "}


def operation_text(operation: Operation) -> str:  # noqa: PLR0912
    """What a step does, in one line."""
    match operation:
        case Source() | Sink():
            return connector_text(operation.connector)
        case EventTime():
            return operation.describe()
        case Filter():
            return operation.where
        case Select() | WithColumns():
            return ", ".join(_column(name, text) for name, text in operation.columns)
        case PythonMap():
            return f"{operation.shape} {function_text(operation.function)}"
        case MapBatches() | Reduce() | Process() | CoProcess():
            return function_text(operation.function)
        case TopN() | Deduplicate() | WindowRank():
            return rank_text(operation)
        case Lookup():
            where = operation.table.path or "rows of the job"
            return f"{operation.how}, {where} on " + ", ".join(f"{a} = {b}" for a, b in operation.on)
        case AsyncMap():
            order = "in order" if operation.ordered else "as they come"
            return f"{function_text(operation.function)}, {operation.concurrency} at a time, {order}"
        case Join() | WindowJoin() | TemporalJoin():
            return join_text(operation)
        case Union():
            return "rows of all inputs"
        case KeyedAggregate():
            return f"{_aggregates(operation.aggregates)}; emits per {operation.emit}"
        case Window():
            return _closing(operation)
        case Pattern():
            return _matches(operation)
        case Patterns():
            return f"every pattern that was brought; {operation.on_update} on update"
        case _:
            assert_never(operation)


def join_text(operation: JoinOperation) -> str:
    """How a join pairs rows."""
    parts: list[str] = [operation.how]
    if isinstance(operation, Join) and operation.lower is not None and operation.upper is not None:
        parts.append(f"within {duration_text(operation.lower)} to {duration_text(operation.upper)}")
    if isinstance(operation, Join) and operation.keep is not None:
        parts.append(f"rows kept {duration_text(operation.keep)}")
    if isinstance(operation, WindowJoin):
        parts.append(f"in {operation.window.describe()}, allowed lateness {duration_text(operation.lateness)}")
    if isinstance(operation, TemporalJoin):
        parts.append("as of the time of the left row")
    elif operation.where is not None:
        parts.append(f"where {operation.where}")
    return ", ".join(parts)


def rank_text(operation: TopN | Deduplicate | WindowRank) -> str:
    """Which rows of a key stay."""
    if isinstance(operation, WindowRank):
        order = "as they come" if operation.by is None else f"by {operation.by}"
        more = [", with ties"] if operation.ties else [", of equal rows the newest"] if operation.newest_first else []
        return f"first {operation.n} {order}{''.join(more)}; when the window has passed"
    if isinstance(operation, TopN):
        ties = ", with ties" if operation.ties else ""
        return f"first {operation.n} by {operation.by}{ties}; emits per {operation.emit}"
    by = f" by {operation.by}" if operation.by is not None else ""
    ttl = f", keys kept {duration_text(operation.ttl)}" if operation.ttl is not None else ""
    return f"{operation.keep}{by}{ttl}; emits per {operation.emit}"


def connector_text(connector: ConnectorSpec) -> str:
    """A connector with its options, long values shortened."""
    options = ", ".join(f"{name}={_short(value)}" for name, value in connector.options.items() if value is not None)
    return f"{connector.name}({options})"


def function_text(function: FunctionRef) -> str:
    """User code by name, and how another process gets it."""
    how = "imported by name" if function.is_importable else "sent with the job"
    return f"{function.name.split('@', maxsplit=1)[0]} at {function.location} ({how})"


def policy_text(edge: StepInput) -> str:
    """How rows reach a step: the partition policy, and the output they come from when it is not the main one."""
    policy = partition_text(edge.partition, edge.keys)
    return policy if edge.output == MAIN else f"{edge.output}: {policy}"


def node_lines(node: StreamNode) -> list[str]:
    """A step with everything that is known about it; the first line names it and says how it runs."""
    facts = [("does", operation_text(node.operation))]
    facts += [("from", f"{edge.step}, {policy_text(edge)}") for edge in node.inputs]
    facts += list(_facts(node))
    facts += [("schema" if name == MAIN else f"{name} →", schema.ddl) for name, schema in node.outputs.items()]
    return [f"{node.id}: {_runs(node)}", *(f"  {name:<11}{text}" for name, text in facts)]


def _facts(node: StreamNode) -> Iterator[tuple[str, str]]:
    operation = node.operation
    if node.keys:
        yield "keys", ", ".join(node.keys)
    if isinstance(operation, Pattern):
        yield "pattern", operation.pattern.describe()
    if isinstance(operation, (Window, WindowRank)):
        late = f", allowed lateness {duration_text(operation.lateness)}" if operation.window.is_event_timed else ""
        yield "window", operation.window.describe() + late
    if isinstance(operation, Window):
        yield from _firing(operation)
    if isinstance(operation, (Process, CoProcess)):
        for state in operation.states:
            ttl = "" if state.ttl is None else _ttl(state, state.ttl)
            version = f", version {state.version}" if state.version > 1 else ""
            yield "state", f"{state.name}: {state.kind} of {state.type_text}{ttl}{version}"
    if isinstance(operation, KEYED) and node.event_time:
        yield "event time", ", ".join(node.event_time)
    if isinstance(operation, (Source, EventTime, PythonMap, Process, CoProcess)) and operation.on_error != "fail":
        yield "on error", operation.on_error
    yield "id", id_text(node)
    if node.uid != node.id:
        yield "uid", node.uid


def id_text(node: StreamNode) -> str:
    """Whether the user gave the id; state under a derived id is lost when the path changes."""
    if node.has_given_id:
        return "given"
    return DERIVED_STATE if isinstance(node.operation, KEYED) else DERIVED


def stream_text(graph: StreamGraph) -> str:
    """A stream graph, step by step."""
    lines = [f"StreamGraph of job {graph.name!r}: {len(graph.nodes)} steps, {graph.requirements.guarantee.value}"]
    for node in graph.nodes:
        lines += ["", *node_lines(node)]
    return "\n".join(lines)


def job_text(graph: JobGraph) -> str:
    """A job graph, chain by chain."""
    lines = [f"JobGraph of job {graph.name!r}: {len(graph.vertices)} chains, {len(graph.edges)} edges between them"]
    for vertex in graph.vertices:
        lines += ["", *vertex_lines(vertex, graph.into(vertex.id))]
    return "\n".join(lines)


def vertex_lines(vertex: Vertex, edges: Sequence[JobEdge]) -> list[str]:
    """A chain: its inputs, then one line for each step fused into it."""
    lines = [f"chain {vertex.id}: {vertex.name}"]
    lines += [f"  in   {edge.source_step}{_output(edge)}, {edge.policy}" for edge in edges]
    for node in vertex.nodes:
        note = f"; id {DERIVED_STATE}" if id_text(node) == DERIVED_STATE else ""
        note += "; starts a chain, as asked" if node.starts_chain else ""
        lines.append(f"  step {node.id}: {_runs(node)}{note}")
    return lines


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A box around steps and other boxes in a flowchart: a chain, a level, a deployment."""

    label: str
    members: tuple[StreamNode | Group, ...]


def chain_group(vertex: Vertex) -> Group:
    """The box of a chain."""
    return Group(label=f"chain {vertex.id}", members=vertex.nodes)


def flowchart(members: Sequence[StreamNode | Group]) -> str:
    """A Mermaid flowchart: every step is a node, every group a subgraph, every edge carries its policy."""
    nodes = [node for member in members for node in _nodes_in(member)]
    names = {node.id: f"n{index}" for index, node in enumerate(nodes)}
    numbers = itertools.count()
    lines = ["flowchart LR"]
    for member in members:
        lines += _drawn(member, names, numbers, "  ")
    lines += [
        f'  {names[edge.step]} -->|"{escaped(policy_text(edge))}"| {names[node.id]}'
        for node in nodes
        for edge in node.inputs
    ]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text that is safe between the quotes of a Mermaid label."""
    return "".join(_ENTITIES.get(char, char) for char in text)


def _drawn(member: StreamNode | Group, names: dict[StepId, str], numbers: Iterator[int], indent: str) -> list[str]:
    if isinstance(member, StreamNode):
        label = f"{escaped(member.id)}<br/>{_runs(member)}"
        left, right = ("[[", "]]") if isinstance(member.operation, (Source, Sink)) else ("[", "]")
        return [f'{indent}{names[member.id]}{left}"{label}"{right}']
    lines = [f'{indent}subgraph g{next(numbers)}["{escaped(member.label)}"]']
    for inner in member.members:
        lines += _drawn(inner, names, numbers, indent + "  ")
    return [*lines, f"{indent}end"]


def _nodes_in(member: StreamNode | Group) -> Iterator[StreamNode]:
    if isinstance(member, StreamNode):
        yield member
        return
    for inner in member.members:
        yield from _nodes_in(inner)


def _runs(node: StreamNode) -> str:
    """The kind of a step and how it runs; sources and sinks say both in one word."""
    kind = node.operation.kind
    return kind if kind == node.runs_as else f"{kind}, runs as {node.runs_as}"


def _output(edge: JobEdge) -> str:
    return "" if edge.output == MAIN else f".{edge.output}"


def _column(name: str, text: str) -> str:
    return name if text in {name, f"`{name}`"} else f"{name} = {text}"


def _ttl(state: StateDescriptor, ttl: int) -> str:
    clock = " of event time" if state.ttl_clock == "event" else ""
    return f", kept {duration_text(ttl)}{clock}{' after it was read' if state.ttl_update == 'read' else ''}"


def _aggregates(aggregates: tuple[tuple[str, Aggregate], ...]) -> str:
    return ", ".join(f"{name} = {aggregate.text}" for name, aggregate in aggregates)


def _firing(operation: Window) -> Iterator[tuple[str, str]]:
    """When a window fires, what is left of it then, and the states of its function."""
    if operation.trigger is not None:
        yield "trigger", operation.trigger.describe()
    if operation.accumulation != "accumulating":
        yield "firings", operation.accumulation
    if operation.evictor is not None:
        yield "evictor", operation.evictor.describe()
    for scope, states in (("key", operation.key_states), ("window", operation.window_states)):
        for state in states:
            yield "state", f"{state.name}: {state.kind} of {state.type_text}, per {scope}"


def _closing(window: Window) -> str:
    if window.aggregates:
        return _aggregates(window.aggregates)
    function = window.reduce or window.process
    assert function is not None, "a window is closed by aggregates, a reduction or a function"
    return f"{'reduce' if window.reduce else 'process'} {function_text(function)}"


def _matches(operation: Pattern) -> str:
    if operation.function is not None:
        return function_text(operation.function)
    return ", ".join(f"{name} = {text}" for name, text in operation.measures)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
