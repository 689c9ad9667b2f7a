"""Join a partitioned plan with its surroundings: master, confs, checkpoint, credits and memory."""

from __future__ import annotations

from millstream.graph.operations.endpoints import Source
from millstream.model.connector import source_declaration
from millstream.plan.deployment import Deployment, DeploymentPlan, FlowControl
from millstream.plan.partitioned import PartitionedPlan


def deploy(plan: PartitionedPlan, deployment: Deployment) -> DeploymentPlan:
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
        flow=tuple(FlowControl(source=step, credit=operation.credit or share) for step, operation in sources),
        memory=deployment.memory,
        epochs=deployment.epochs,
        confs=deployment.confs,
        is_bounded=is_bounded,
        epoch_interval=requirements.epoch_interval,
        on_stop=deployment.on_stop or requirements.on_stop,
    )


def _is_bounded(operation: Source) -> bool:
    declared = source_declaration(operation.connector)
    return declared.is_bounded(operation.connector.options)
