"""Join a partitioned plan with its surroundings: master, confs, checkpoint, credits and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from millstream.graph.operations.endpoints import Source
from millstream.model.connector import source_declaration
from millstream.model.flow import FlowControl
from millstream.model.ids import StepId
from millstream.plan.deployment import Deployment, DeploymentPlan, EdgeConfig, MemoryBudget, SourceFlow
from millstream.plan.partitioned import PartitionedPlan


def deploy(plan: PartitionedPlan, deployment: Deployment, params: dict[str, Any]) -> DeploymentPlan:
    """Share the rows of an epoch among the sources and fix what the engine is told."""
    sources = [
        (planned.vertex.id, operation)
        for planned in plan.vertices
        if isinstance(operation := planned.vertex.head.operation, Source)
    ]
    requirements = plan.graph.requirements
    share = max(1, requirements.rows_per_epoch // max(1, len(sources)))
    is_bounded = all(_is_bounded(operation) for _, operation in sources)
    return DeploymentPlan(
        plan=plan,
        master=deployment.master,
        checkpoint=deployment.checkpoint,
        manifests=deployment.manifests,
        state_backend=deployment.state_backend,
        flow=tuple(_flow(step, operation, share) for step, operation in sources),
        edges=tuple(_edges(plan, deployment.memory)),
        memory=deployment.memory,
        epochs=deployment.epochs,
        confs=deployment.confs,
        is_bounded=is_bounded,
        mode=plan.graph.mode,
        epoch_interval=requirements.epoch_interval,
        on_stop=deployment.on_stop or requirements.on_stop,
        params=params,
    )


def _flow(step: StepId, operation: Source, share: int) -> SourceFlow:
    control = operation.flow or FlowControl()
    return SourceFlow(
        source=step,
        strategy=control.strategy,
        credit=operation.credit or share,
        capacity_rows=control.capacity_rows,
        capacity_bytes=control.capacity_bytes,
        target=control.target_ms,
        key=control.key,
    )


def _edges(plan: PartitionedPlan, memory: MemoryBudget) -> Iterator[EdgeConfig]:
    """Senders of one level share what its tasks may hold."""
    exchanges = [edge for edge in plan.edges if not edge.is_local]
    leaving = Counter(edge.from_level for edge in exchanges)
    for edge in exchanges:
        share = 1 / leaving[edge.from_level]
        payload = min(memory.payload_bytes, max(1, int(memory.exchange_bytes * share)))
        yield EdgeConfig(port=edge.port, payload_bytes=payload, memory_share=round(share, 4))


def _is_bounded(operation: Source) -> bool:
    declared = source_declaration(operation.connector)
    return declared.is_bounded(operation.connector.options)
