"""The event-time steps of a plan: where their rows come from, and who sees them."""

from __future__ import annotations

from millstream.graph.operations.endpoints import Source
from millstream.graph.operations.watermark import EventTime
from millstream.jobmaster.planner.watermarks import TimeStep
from millstream.plan.deployment import DeploymentPlan


def time_steps(deployment: DeploymentPlan) -> dict[str, TimeStep]:
    """The event-time steps, by id."""
    plan = deployment.plan
    sources = _sources_of(deployment)
    return {
        node.id: TimeStep(node.id, node.operation, sources[node.id], planned.level == 0)
        for planned in plan.vertices
        for node in planned.vertex.nodes
        if isinstance(node.operation, EventTime)
    }


def _sources_of(deployment: DeploymentPlan) -> dict[str, tuple[str, ...]]:
    """The sources upstream of each step."""
    sources: dict[str, tuple[str, ...]] = {}
    for planned in deployment.plan.vertices:
        for node in planned.vertex.nodes:
            upstream = {name for edge in node.inputs for name in sources[edge.step]}
            sources[node.id] = (node.id,) if isinstance(node.operation, Source) else tuple(sorted(upstream))
    return sources


def event_time_of(deployment: DeploymentPlan) -> dict[str, tuple[str, ...]]:
    """The event-time steps that each keyed step sees."""
    return {
        planned.vertex.id: planned.vertex.head.event_time
        for planned in deployment.plan.vertices
        if planned.vertex.is_keyed
    }


def combinations(deployment: DeploymentPlan) -> list[tuple[str, ...]]:
    """The event-time steps that some keyed step sees together."""
    return sorted({seen for seen in event_time_of(deployment).values() if len(seen) > 1})
