"""The compile path of a job: five values, four passes between them, in one readable sequence."""

from __future__ import annotations

import dataclasses

from millstream.graph.job_graph import JobGraph
from millstream.graph.model import StreamModel
from millstream.graph.resolve import resolve_graph
from millstream.graph.stream_graph import StreamGraph
from millstream.model.params import read_params
from millstream.plan.deployment import Deployment, DeploymentPlan
from millstream.plan.fingerprint import fingerprint_of
from millstream.plan.partitioned import PartitionedPlan
from millstream.plan.passes.bind import bind
from millstream.plan.passes.chain import chain
from millstream.plan.passes.deploy import deploy
from millstream.plan.passes.partition import partition
from millstream.plan.passes.validate import validate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Every layer of one job."""

    model: StreamModel
    stream: StreamGraph
    job: JobGraph
    partitioned: PartitionedPlan
    deployment: DeploymentPlan


def compile_job(model: StreamModel, deployment: Deployment | None = None) -> Layers:
    """StreamModel → StreamGraph → JobGraph → PartitionedPlan → DeploymentPlan."""
    chosen = deployment or Deployment()
    values = {} if chosen.params is None else read_params(model.requirements.params, chosen.params)
    stream = resolve_graph(validate(bind(model, values), chosen))
    job = chain(stream)
    partitioned = partition(job, fingerprint_of(stream))
    deployed = deploy(partitioned, chosen, values)
    return Layers(model=model, stream=stream, job=job, partitioned=partitioned, deployment=deployed)
