"""How long rows were on their way when an epoch was published."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.graph.operations.endpoints import Sink
from millstream.model.counts import Counts, StepCounts
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan
from millstream.runtime.messages import TaskReport


def latencies(
    deployment: DeploymentPlan, plan: EpochPlan, reports: Sequence[TaskReport], counts: Counts, *, published: int
) -> dict[str, float]:
    """Per sink that got rows, in seconds: since their event time, or since they were admitted where they have none.

    Of event times the newest of the epoch counts, of several partitions the one that is furthest behind: a sink is as late as
    the latest of what it shows. The clock of `published` is the one by which epochs are decided.
    """
    found: dict[str, float] = {}
    for planned in deployment.plan.vertices:
        for node in planned.vertex.nodes:
            if isinstance(node.operation, Sink) and counts.get(node.id, StepCounts()).rows_in:
                newest = _newest(reports, node.event_time)
                since = plan.now if newest is None else min(newest, plan.now)
                found[node.id] = max(0.0, (published - since) / 1000)
    return found


def _newest(reports: Sequence[TaskReport], steps: Sequence[str]) -> int | None:
    """The newest event time of the partition that is furthest behind, among those of which rows came."""
    newest: dict[tuple[str, str], int] = {}
    for report in reports:
        for step in steps:
            for partition, mark in report.newest.get(step, {}).items():
                newest[step, partition] = max(mark, newest.get((step, partition), mark))
    return min(newest.values(), default=None)
