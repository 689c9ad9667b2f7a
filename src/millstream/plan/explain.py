"""A compiled job for people: each layer as text or as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from millstream.errors import InvalidPlan
from millstream.graph.flowchart import Box, chain_box, flowchart
from millstream.graph.model import Requirements
from millstream.graph.operations.endpoints import Sink
from millstream.graph.render import job_text, stream_text, vertex_lines
from millstream.graph.stream_graph import StreamNode
from millstream.graph.windows.window import duration_text
from millstream.model.connector import replaces
from millstream.model.mode import MODE_TEXTS, Mode
from millstream.model.params import shown_params
from millstream.plan.compile import Layers
from millstream.plan.deployment import DeploymentPlan, SourceFlow
from millstream.plan.partitioned import PartitionedPlan, PlannedEdge
from millstream.redaction import shown_setting

Layer = Literal["stream", "job", "partitioned", "deployment"]
LAYERS: tuple[Layer, ...] = get_args(Layer)


def checked_layer(name: str) -> Layer:
    """A layer by name."""
    for layer in LAYERS:
        if name == layer:
            return layer
    msg = "unknown layer"
    raise InvalidPlan(msg, code="PLAN-050", found=repr(name), known=LAYERS, hint="use layer='partitioned'")


def explain(layers: Layers, layer: str = "partitioned") -> str:
    """A layer as text."""
    return _TEXT[checked_layer(layer)](layers)


def mermaid(layers: Layers, layer: str = "partitioned") -> str:
    """A layer as a Mermaid flowchart: chains and levels are boxes, edges carry their policy."""
    return flowchart(_DRAWN[checked_layer(layer)](layers))


def key_group_ranges(plan: PartitionedPlan) -> list[tuple[int, int]]:
    """First key group and the one behind the last of each subtask: subtask i of P owns `[i·G/P, (i+1)·G/P)`."""
    groups, parallelism = plan.key_groups, plan.parallelism
    return [(i * groups // parallelism, (i + 1) * groups // parallelism) for i in range(parallelism)]


def partitioned_text(plan: PartitionedPlan) -> str:
    """Levels, subtasks, key groups, edges and fingerprint of a plan."""
    ranges = ", ".join(f"{i}: {first}-{end - 1}" for i, (first, end) in enumerate(key_group_ranges(plan)))
    facts = [
        ("mode", _mode(plan.graph.mode)),
        ("guarantee", plan.graph.requirements.guarantee.value),
        ("parallelism", f"{plan.parallelism} subtasks at every level above 0; level 0 has at most as many tasks"),
        ("key groups", f"{plan.key_groups}; by subtask {ranges}"),
        ("shuffles", str(plan.depth)),
        *([] if plan.graph.requirements.chaining else [("chaining", "off: every step is a vertex of its own")]),
        ("acknowledge", _acknowledged(plan)),
        ("fingerprint", plan.fingerprint.whole),
    ]
    lines = [f"PartitionedPlan of job {plan.graph.name!r}: {plan.depth + 1} levels", *_table(facts)]
    for level in range(plan.depth + 1):
        lines += ["", f"level {level}"]
        for planned in plan.at_level(level):
            edges = plan.graph.into(planned.vertex.id)
            lines += [f"  {line}" for line in vertex_lines(planned.vertex, edges)]
    lines += ["", "edges", *(f"  {_edge(edge)}" for edge in plan.edges)] if plan.edges else []
    return "\n".join(lines)


def _flow(flow: SourceFlow) -> str:
    """A source's credit, and what becomes of rows beyond its capacity."""
    limits = [
        f"{flow.capacity_rows} rows" if flow.capacity_rows is not None else "",
        _size(flow.capacity_bytes) if flow.capacity_bytes is not None else "",
    ]
    capacity = " and ".join(limit for limit in limits if limit)
    target = f", epochs of {duration_text(flow.target)}" if flow.target is not None else ""
    behind = f" behind {capacity}" if capacity else ""
    return f"{flow.source}: {flow.credit} rows per epoch{target}, {flow.strategy}{behind}"


def _held(plan: DeploymentPlan) -> str:
    """What a worker holds of them: while an epoch runs, and between epochs."""
    held = f"{_size(plan.memory.state_bytes)} of them held at once"
    return f"{held}, {_size(plan.memory.cache_bytes)} kept" if plan.state_backend == "memory" else held


def deployment_text(plan: DeploymentPlan) -> str:
    """The surroundings of a plan: engine, state, checkpoint, credits and memory."""
    memory, requirements = plan.memory, plan.plan.graph.requirements
    facts = [
        ("mode", _mode(plan.mode)),
        ("master", plan.master),
        ("state", plan.state_backend),
        ("checkpoint", plan.checkpoint or "none: a run starts afresh and cannot be resumed"),
        ("input", "bounded: ends with a terminal epoch" if plan.is_bounded else "unbounded: runs until it is stopped"),
        ("epochs", _interval(plan.plan.graph.requirements)),
        ("on stop", plan.on_stop),
        *([("again", f"begins with {requirements.carry} of the run before")] if requirements.carry else []),
        *(("replaces", f"{sink}: its result, at the end of a run") for sink in _replacing(plan)),
        *([("params", shown_params(plan.params))] if plan.params else []),
        *(("credit", _flow(flow)) for flow in plan.flow),
        *(
            ("exchange", f"port {e.port}: payloads of {_size(e.payload_bytes)}, {e.memory_share:.0%}")
            for e in plan.edges
        ),
        ("memory", f"{_size(memory.epoch_bytes)} of an epoch, {_size(memory.exchange_bytes)} in exchanges"),
        ("", f"state pages of {_size(memory.page_bytes)}, {_held(plan)}"),
        ("", f"driver {memory.driver_mb} MiB"),
        *(("conf", f"{key}={shown_setting(key, value)}") for key, value in plan.confs),
        ("fingerprint", plan.plan.fingerprint.whole),
    ]
    shape = f"{plan.plan.depth + 1} levels, parallelism {plan.plan.parallelism}"
    return "\n".join([f"DeploymentPlan of job {plan.name!r}: {shape}", *_table(facts)])


def _replacing(plan: DeploymentPlan) -> list[str]:
    steps = [node for planned in plan.plan.vertices for node in planned.vertex.nodes]
    return [
        node.id for node in steps if isinstance(node.operation, Sink) and replaces(node.operation.connector.options)
    ]


def _mode(mode: Mode) -> str:
    return f"{mode.value}: {MODE_TEXTS[mode]}"


def _table(facts: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {name:<13}{text}" for name, text in facts]


def _acknowledged(plan: PartitionedPlan) -> str:
    """The acknowledgement set, level by level; `PartitionedPlan.acknowledgements` lists every task."""
    levels = [f"level {level}: subtasks 0-{plan.parallelism - 1}" for level in range(1, plan.depth + 1)]
    return "; ".join(["level 0: every split", *levels])


def _edge(planned: PlannedEdge) -> str:
    edge = planned.edge
    way = "inside the task" if planned.is_local else f"level {planned.from_level} → {planned.to_level}"
    return f"port {planned.port}: {edge.source_step}.{edge.output} → {edge.target}, {edge.policy}, {way}"


def _interval(requirements: Requirements) -> str:
    return f"every {duration_text(requirements.epoch_interval)}, at most {requirements.rows_per_epoch} rows"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def _levels(plan: PartitionedPlan) -> tuple[Box, ...]:
    return tuple(
        Box(
            label=f"level {level}, {plan.parallelism} subtasks"
            if level
            else f"level 0, at most {plan.parallelism} tasks",
            members=tuple(chain_box(planned.vertex) for planned in plan.at_level(level)),
        )
        for level in range(plan.depth + 1)
    )


def _deployed(plan: DeploymentPlan) -> Box:
    label = f"{plan.name} on {plan.master}, {plan.state_backend} state, checkpoint {plan.checkpoint or 'none'}"
    return Box(label=label, members=_levels(plan.plan))


_TEXT: dict[Layer, Callable[[Layers], str]] = {
    "stream": lambda layers: stream_text(layers.stream),
    "job": lambda layers: job_text(layers.job),
    "partitioned": lambda layers: partitioned_text(layers.partitioned),
    "deployment": lambda layers: deployment_text(layers.deployment),
}
_DRAWN: dict[Layer, Callable[[Layers], Sequence[StreamNode | Box]]] = {
    "stream": lambda layers: layers.stream.nodes,
    "job": lambda layers: tuple(chain_box(vertex) for vertex in layers.job.vertices),
    "partitioned": lambda layers: _levels(layers.partitioned),
    "deployment": lambda layers: (_deployed(layers.deployment),),
}
