"""From what a node asks for to a plan and the engine that runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from millstream.api.job import Job
from millstream.api.jobfile.load import load_job
from millstream.api.jobfile.target import load, model_of
from millstream.api.run_options import RunOptions
from millstream.api.running.job import JobRunner
from millstream.contract.driver_protocol import RunSpec
from millstream.driver.service.reach import check_reach, confine_reach
from millstream.errors import InvalidPlan
from millstream.plan.compile import compile_job
from millstream.plan.deployment import DeploymentPlan, EpochPolicy
from millstream.plan.job_config import applied, epoch_options
from millstream.registry import confine

START = frozenset({"from_savepoint", "on_newer_output", "allow_dropped_state", "ignore_state_once", "carry"})


def options_of(spec: RunSpec) -> RunOptions:
    """The options of the run; what is wrong with one is refused here."""
    unknown = set(spec.start) - START
    if unknown:
        msg = "the start of a run says something unknown"
        raise InvalidPlan(msg, code="CTL-112", found=unknown, known=START, hint="leave it out")
    return RunOptions(
        local=spec.engine == "local",
        checkpoint=spec.checkpoint,
        manifests=spec.manifests,
        run_id=spec.run,
        epochs=EpochPolicy(**{**spec.epochs, **epoch_options(spec.config)}),
        master=spec.master,
        state_backend=spec.state_backend,
        confs=dict(spec.confs),
        params=dict(spec.params),
        on_stop=spec.on_stop,
        **spec.start,
    )


def planned(spec: RunSpec, options: RunOptions) -> DeploymentPlan:
    """The plan of the job, which stays within its reach."""
    confine_reach(spec.definition, spec.reach)
    model = applied(model_of(job_of(spec.definition, spec.code), spec.parallelism), spec.config)
    layers = compile_job(model, options.deployment())
    check_reach(spec.definition, layers.stream, spec.reach)
    return layers.deployment


def engine_of(spec: RunSpec, options: RunOptions, plan: DeploymentPlan) -> JobRunner:
    """The engine, told where to begin and under which claim."""
    return options.engine_of(plan, claim=spec.token)


def confine_functions(definition: dict[str, Any], code: str | None) -> None:
    """A definition that is data runs no code but what its own artifact brings; code does what it likes."""
    if definition.get("kind") == "declarative":
        confine(None if code is None else Path(code))


def job_of(definition: dict[str, Any], code: str | None) -> Job:
    """The job that a definition describes; `code` is the folder of its unpacked artifact."""
    if code is not None and code not in sys.path:
        sys.path.insert(0, code)
    match definition:
        case {"kind": "declarative", "document": dict(document)}:
            return load_job(json.dumps(document))
        case {"kind": "code", "entry": str(entry)}:
            return load(_entry(code, entry))
        case other:
            msg = "the definition of a run is neither declarative nor code"
            known = '{"kind": "declarative", "document": {...}} or {"kind": "code", "entry": "job.py:job"}'
            raise InvalidPlan(msg, code="CTL-113", found=_shape(other), known=known, hint="submit the job again")


def _entry(code: str | None, entry: str) -> str:
    """A file of the artifact by its whole path; one that leads out of it is refused. Modules are found on the module path."""
    path = entry.partition(":")[0]
    if not path.endswith(".py"):
        return entry
    root = Path(code or ".").resolve()
    if not (root / path).resolve().is_relative_to(root):
        msg = "the entry of a job leads out of its artifact"
        raise InvalidPlan(msg, code="CTL-114", found=repr(entry), known=str(root), hint="name a file inside it")
    return f"{root}/{entry}"


def _shape(definition: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {type(value).__name__}" for name, value in definition.items()) or "nothing"
