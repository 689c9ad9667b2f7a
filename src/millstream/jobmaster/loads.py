"""Which vertex is busy, idle or blocked, and which step holds a job back: computed from what tasks and sinks took.

Levels of an epoch follow each other, and sinks are published behind them. What runs before a vertex is what it waits for (idle);
what runs behind it keeps it from its next rows (blocked).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millstream.api.running.result import Holder, Load, VertexLoad
from millstream.checkpoint.manifest import StateFileRecord
from millstream.graph.job_graph import Vertex
from millstream.graph.operations.rows import PythonMap
from millstream.model.counts import Counts, StepCounts
from millstream.plan.partitioned import PartitionedPlan
from millstream.runtime.messages import TaskReport

_NOTABLE = 0.2
"""A step that takes less of an epoch than this does not hold it back: the time goes into planning and committing it."""


def load_of(
    plan: PartitionedPlan, reports: Sequence[TaskReport], counts: Counts, published: Mapping[str, float], seconds: float
) -> Load:
    """The load of an epoch.

    Args:
        plan: whose vertices they are.
        reports: of all tasks.
        counts: rows of each step, all tasks together.
        published: seconds that each sink took to prepare and publish.
        seconds: the whole epoch.
    """
    busy, spent = _longest(report.busy for report in reports), _longest(report.spent for report in reports)
    for sink, took in published.items():
        spent[sink] = spent.get(sink, 0.0) + took
    levels = _levels(plan, reports)
    vertices: dict[str, VertexLoad] = {}
    for planned in plan.vertices:
        vertex, own = planned.vertex, busy.get(planned.vertex.id, 0.0)
        blocked = min(seconds - own, sum(levels[planned.level + 1 :]) + sum(published.values()))
        sizes = _sizes(vertex.id, reports)
        vertices[vertex.id] = VertexLoad(
            busy=own,
            blocked=max(0.0, blocked),
            idle=max(0.0, seconds - own - max(0.0, blocked)),
            rows_in=counts.get(vertex.head.id, StepCounts()).rows_in,
            rows_out=counts.get(vertex.nodes[-1].id, StepCounts()).rows_out,
            bytes_in=sizes[0],
            bytes_out=sizes[1],
            subtasks=sum(report.level == planned.level for report in reports),
        )
    return Load(vertices=vertices, steps=spent, holder=_holder(spent, _vertices_by_step(plan), seconds))


def measures_of(plan: PartitionedPlan, reports: Iterable[TaskReport]) -> dict[str, dict[int, tuple[float, int, int]]]:
    """By vertex and subtask of its level: seconds at work, rows in, rows out."""
    measures: dict[str, dict[int, tuple[float, int, int]]] = {each.vertex.id: {} for each in plan.vertices}
    levels = [[each.vertex for each in plan.vertices if each.level == level] for level in range(plan.depth + 1)]
    for report in reports:
        for vertex in levels[report.level]:
            first = report.counts.get(vertex.head.id, StepCounts())
            last = report.counts.get(vertex.nodes[-1].id, StepCounts())
            measures[vertex.id][report.task] = report.busy.get(vertex.id, 0.0), first.rows_in, last.rows_out
    return measures


def epoch_size(reports: Sequence[TaskReport], segments: Sequence[StateFileRecord]) -> int:
    """Bytes of state that an epoch wrote, and of what it staged for sinks.

    An engine that stores the state of an epoch in files of its own names them; of others the pages count that tasks wrote.
    """
    written = sum(each.bytes for each in segments) or sum(report.state_bytes for report in reports)
    return written + sum(report.staged_bytes for report in reports)


def shuffled_bytes(reports: Sequence[TaskReport]) -> int:
    """Bytes that came to tasks from others."""
    return sum(sum(report.received_bytes.values()) for report in reports)


def _longest(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """By name, the longest of several tasks: they run side by side, so the slowest counts."""
    longest: dict[str, float] = {}
    for part in parts:
        for name, took in part.items():
            longest[name] = max(took, longest.get(name, 0.0))
    return longest


def _levels(plan: PartitionedPlan, reports: Sequence[TaskReport]) -> list[float]:
    """How long the slowest task of each level was at work."""
    levels = [0.0] * (plan.depth + 1)
    for report in reports:
        levels[report.level] = max(levels[report.level], sum(report.busy.values()))
    return levels


def _sizes(vertex: str, reports: Sequence[TaskReport]) -> tuple[int, int]:
    into = sum(report.read_bytes.get(vertex, 0) + report.received_bytes.get(vertex, 0) for report in reports)
    return into, sum(report.sent_bytes.get(vertex, 0) for report in reports)


def _vertices_by_step(plan: PartitionedPlan) -> dict[str, Vertex]:
    return {node.id: planned.vertex for planned in plan.vertices for node in planned.vertex.nodes}


def _holder(spent: Mapping[str, float], vertices: Mapping[str, Vertex], seconds: float) -> Holder | None:
    """The step on which an epoch spent most, if that is worth naming."""
    step = max(spent, key=lambda name: spent[name], default=None)
    if step is None or seconds <= 0 or spent[step] < _NOTABLE * seconds:
        return None
    operation = next(node.operation for node in vertices[step].nodes if node.id == step)
    kind = operation.shape if isinstance(operation, PythonMap) else operation.kind
    return Holder(
        step=step, kind=kind, vertex=vertices[step].id, seconds=spent[step], share=min(1.0, spent[step] / seconds)
    )
