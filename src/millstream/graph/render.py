"""Graphs for people, as text: steps, chains, and how rows reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millstream.graph.job_graph import JobEdge, JobGraph, Vertex
from millstream.graph.step import MAIN, StepInput, partition_text
from millstream.graph.stream_graph import StreamGraph, StreamNode

DERIVED = "derived from its path"
DERIVED_STATE = "derived from its path; give id= before you rely on its state"


def policy_text(edge: StepInput) -> str:
    """How rows reach a step: the partition policy, and the output they come from when it is not the main one."""
    policy = partition_text(edge.partition, edge.keys)
    return policy if edge.output == MAIN else f"{edge.output}: {policy}"


def node_lines(node: StreamNode) -> list[str]:
    """A step with everything that is known about it; the first line names it and says how it runs."""
    facts = [("does", node.operation.describe())]
    facts += [("from", f"{edge.step}, {policy_text(edge)}") for edge in node.inputs]
    facts += list(_facts(node))
    facts += [("schema" if name == MAIN else f"{name} →", schema.ddl) for name, schema in node.outputs.items()]
    return [f"{node.id}: {runs_text(node)}", *(f"  {name:<11}{text}" for name, text in facts)]


def _facts(node: StreamNode) -> Iterator[tuple[str, str]]:
    operation = node.operation
    if node.keys:
        yield "keys", ", ".join(node.keys)
    yield from operation.facts()
    if operation.is_keyed and node.event_time:
        yield "event time", ", ".join(node.event_time)
    if operation.error_policy != "fail":
        yield "on error", operation.error_policy
    if node.changelog is not None:
        yield "gives", node.changelog.describe()
    yield "id", id_text(node)
    if node.uid != node.id:
        yield "uid", node.uid


def id_text(node: StreamNode) -> str:
    """Whether the user gave the id; state under a derived id is lost when the path changes."""
    if node.has_given_id:
        return "given"
    return DERIVED_STATE if node.operation.is_keyed else DERIVED


def runs_text(node: StreamNode) -> str:
    """The kind of a step and how it runs; sources and sinks say both in one word."""
    kind = node.operation.kind
    return kind if kind == node.runs_as else f"{kind}, runs as {node.runs_as}"


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
        lines.append(f"  step {node.id}: {runs_text(node)}{note}")
    return lines


def _output(edge: JobEdge) -> str:
    return "" if edge.output == MAIN else f".{edge.output}"
