"""What `Job.run` and `Job.start` take, and the engine that it leads to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.api.running.job import JobRunner, engine_for, listening
from millstream.api.running.result import Listener
from millstream.graph.model import Carry, OnStop, StreamModel
from millstream.model.connector import NewerOutput
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment, DeploymentPlan, EpochPolicy, MemoryBudget, StateBackend
from millstream.plan.option_values import path_or_url

Confs = tuple[tuple[str, str], ...] | Mapping[str, str]
_DEPLOYMENT = Deployment()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run; the signatures of `Job` repeat them, so that editors and type checkers show them."""

    local: bool = False
    checkpoint: str | Path | None = None
    manifests: str | None = None
    from_savepoint: str | Path | None = None
    on_newer_output: NewerOutput = "refuse"
    allow_dropped_state: bool = False
    ignore_state_once: bool = False
    carry: Carry | None = None
    run_id: str | None = None
    epochs: EpochPolicy = _DEPLOYMENT.epochs
    master: str = _DEPLOYMENT.master
    state_backend: StateBackend = _DEPLOYMENT.state_backend
    memory: MemoryBudget = _DEPLOYMENT.memory
    confs: Confs = _DEPLOYMENT.confs
    params: Mapping[str, Any] | None = None
    on_stop: OnStop | None = None
    on_epoch: Listener | None = None

    def engine(self, job: StreamModel) -> JobRunner:
        """The engine of a run of this job; what is wrong with the job or an option is refused here."""
        return self.engine_of(compile_job(job, self.deployment()).deployment)

    def engine_of(self, plan: DeploymentPlan, **options: Any) -> JobRunner:
        """The engine of a run of a plan, told where to begin."""
        return engine_for(
            plan,
            local=self.local,
            from_savepoint=self.from_savepoint,
            on_newer_output=self.on_newer_output,
            allow_dropped_state=self.allow_dropped_state,
            ignore_state_once=self.ignore_state_once,
            carry=self.carry,
            run_id=self.run_id,
            **options,
        )

    def listener(self) -> Listener | None:
        """What is called after each epoch."""
        return listening(self.on_epoch)

    def deployment(self) -> Deployment:
        """What the person who starts the job chose."""
        return Deployment(
            checkpoint=path_or_url("checkpoint", self.checkpoint),
            manifests=self.manifests,
            epochs=self.epochs,
            master=self.master,
            state_backend=self.state_backend,
            memory=self.memory,
            confs=self.confs,  # type: ignore[arg-type]  # a mapping is stored as pairs
            on_stop=self.on_stop,
            params={} if self.params is None else self.params,
        )
