"""Graphs as Mermaid flowcharts: any grouping of steps, with an edge for each input."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from millstream.graph.job_graph import Vertex
from millstream.graph.render import policy_text, runs_text
from millstream.graph.stream_graph import StreamNode
from millstream.model.ids import StepId

_ENTITIES = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "`": "#96;", "\n": " ", "\r": " "}


class Box(NamedTuple):
    """A box around steps and other boxes in a flowchart: a chain, a level, a deployment."""

    label: str
    members: tuple[StreamNode | Box, ...]


def chain_box(vertex: Vertex) -> Box:
    """The box of a chain."""
    return Box(label=f"chain {vertex.id}", members=vertex.nodes)


def flowchart(members: Sequence[StreamNode | Box]) -> str:
    """A Mermaid flowchart: every step is a node, every box a subgraph, every edge carries its policy."""
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


def _drawn(member: StreamNode | Box, names: dict[StepId, str], numbers: Iterator[int], indent: str) -> list[str]:
    if isinstance(member, StreamNode):
        label = f"{escaped(member.id)}<br/>{runs_text(member)}"
        left, right = ("[[", "]]") if member.runs_as in {"source", "sink"} else ("[", "]")
        return [f'{indent}{names[member.id]}{left}"{label}"{right}']
    lines = [f'{indent}subgraph g{next(numbers)}["{escaped(member.label)}"]']
    for inner in member.members:
        lines += _drawn(inner, names, numbers, indent + "  ")
    return [*lines, f"{indent}end"]


def _nodes_in(member: StreamNode | Box) -> Iterator[StreamNode]:
    if isinstance(member, StreamNode):
        yield member
        return
    for inner in member.members:
        yield from _nodes_in(inner)
