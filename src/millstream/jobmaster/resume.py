"""Whether a job may take over the state of a checkpoint or a savepoint; refused before anything is touched."""

from __future__ import annotations

import msgspec

from millstream.checkpoint.manifest import EpochManifest, source_connectors
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.savepoint import Savepoint
from millstream.errors import CheckpointRefused
from millstream.graph.operations.endpoints import Source
from millstream.graph.operations.watermark import EventTime
from millstream.jobmaster.compatibility import JobShape, compare, obstacles_in_place, shape_of
from millstream.jobmaster.connectors import nodes_of
from millstream.model.params import shown_params, stored_params
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.state.layout import StateLayout

_OTHERWISE = "or take a savepoint and restore it: millstream savepoint create, then run --from-savepoint"


def check_resume(deployment: DeploymentPlan, newest: EpochManifest, engine: str) -> None:
    """Raise where `resume_refusal` has a reason."""
    _raise_if_any(resume_refusal(deployment, newest, engine))


def check_restore(deployment: DeploymentPlan, savepoint: Savepoint, engine: str, start: Start) -> None:
    """Raise where `restore_refusal` has a reason."""
    _raise_if_any(restore_refusal(deployment, savepoint, engine, start))


def check_params(deployment: DeploymentPlan, stored: RunRecord) -> None:
    """Raise where `params_refusal` has a reason."""
    _raise_if_any(params_refusal(deployment, stored))


def _raise_if_any(refusal: CheckpointRefused | None) -> None:
    if refusal is not None:
        raise refusal


def resume_refusal(deployment: DeploymentPlan, newest: EpochManifest, engine: str) -> CheckpointRefused | None:
    """A checkpoint is resumed in place by its engine and parallelism, as long as the state may stay where it lies."""
    parallelism = deployment.plan.parallelism
    if newest.engine != engine:
        msg, hint = "the checkpoint was written by another engine", f"run it on that engine, {_OTHERWISE}"
        return CheckpointRefused(msg, code="CKPT-011", found=newest.engine, known=engine, hint=hint)
    if newest.parallelism != parallelism:
        msg = "the checkpoint was written with another parallelism"
        hint = f"set parallelism={newest.parallelism}, {_OTHERWISE}"
        return CheckpointRefused(msg, code="CKPT-008", found=newest.parallelism, known=parallelism, hint=hint)
    stored, mine = shape_of_manifest(newest), shape_of(deployment)
    refusal = compare(stored, mine).refusal() or params_refusal(
        deployment, newest.run, is_complete=newest.kind == "terminal"
    )
    if refusal is not None:
        return refusal
    obstacles = [*obstacles_in_place(stored, mine), *_renamed(deployment, newest.uids)]
    if not obstacles:
        return None
    msg = "the job changed since the checkpoint was written: " + "; ".join(obstacles)
    return CheckpointRefused(msg, code="CKPT-006", hint=f"undo the change, {_OTHERWISE}")


def params_refusal(
    deployment: DeploymentPlan, stored: RunRecord, *, is_complete: bool = False
) -> CheckpointRefused | None:
    """A run of a bounded job ends with what it was given: half of its result would be of other values.

    One that is complete has nothing left to run, for other values neither.
    """
    mine = stored_params(deployment.params)
    changed = {name: value for name, value in stored.params.items() if mine.get(name) != value}
    if not changed or not deployment.is_bounded:
        return None
    found = shown_params({name: mine[name] for name in changed if name in mine})
    if is_complete:
        msg, code = "the run of other parameters is complete, and nothing says what another one begins with", "CKPT-066"
        hint = "pass carry= (--carry nothing, position or state)"
    else:
        msg, code = "the run that was interrupted had other parameters", "CKPT-065"
        hint = "give it the same ones and let it end, or give it up with --ignore-state-once"
    return CheckpointRefused(msg, code=code, found=found, known=shown_params(changed), hint=hint)


def restore_refusal(
    deployment: DeploymentPlan, savepoint: Savepoint, engine: str, start: Start
) -> CheckpointRefused | None:
    """A savepoint is restored by a job of its name whose state is compatible; a native one by the very same plan."""
    if savepoint.job != deployment.name:
        msg, hint = "the savepoint belongs to another job", "restore it with that job"
        return CheckpointRefused(msg, code="CKPT-005", found=savepoint.job, known=deployment.name, hint=hint)
    stored, mine = shape_of_savepoint(savepoint), shape_of(deployment)
    refusal = compare(stored, mine, allow_dropped=start.allow_dropped_state).refusal()
    if refusal is None and savepoint.kind == "native":
        return _native_refusal(deployment, savepoint, engine)
    return refusal


def _native_refusal(deployment: DeploymentPlan, savepoint: Savepoint, engine: str) -> CheckpointRefused | None:
    plan = deployment.plan
    if engine == "local" and deployment.checkpoint is None:
        msg = "a native savepoint is files of an engine, and this run keeps none"
        return CheckpointRefused(msg, code="CKPT-063", hint="run with checkpoint=DIR (--checkpoint DIR)")
    stored = (savepoint.engine, savepoint.parallelism, savepoint.fingerprint)
    mine = (engine, plan.parallelism, plan.fingerprint.whole)
    if stored == mine:
        return None
    msg = "a native savepoint is restored by the plan, parallelism and engine that wrote it"
    return CheckpointRefused(
        msg,
        code="CKPT-023",
        found=f"{engine}, parallelism {plan.parallelism}, plan {plan.fingerprint.whole}",
        known=f"{savepoint.engine}, parallelism {savepoint.parallelism}, plan {savepoint.fingerprint}",
        hint="restore it as it was and take a canonical savepoint there",
    )


def _renamed(deployment: DeploymentPlan, uids: dict[str, str]) -> list[str]:
    """Steps that the epoch plan names by id: under another id it would not find them."""
    before = {uid: step for step, uid in uids.items()}
    return [
        f"{node.operation.kind} {before[node.uid]!r} is now called {node.id!r}"
        for node in nodes_of(deployment)
        if isinstance(node.operation, (Source, EventTime)) and before.get(node.uid, node.id) != node.id
    ]


def shape_of_manifest(manifest: EpochManifest) -> JobShape:
    """The shape of the job that wrote a manifest."""
    return JobShape(
        fingerprint=manifest.fingerprint,
        parallelism=manifest.parallelism,
        depth=manifest.depth,
        layouts=msgspec.convert(manifest.operators, dict[str, StateLayout]),
        sources=source_connectors(manifest),
        sinks={uid: sink.protocol for uid, sink in manifest.sinks.items()},
    )


def shape_of_savepoint(savepoint: Savepoint) -> JobShape:
    """The shape of the job that a savepoint was taken of."""
    return JobShape(
        fingerprint=savepoint.fingerprint,
        parallelism=savepoint.parallelism,
        depth=savepoint.depth,
        layouts=msgspec.convert(savepoint.layouts, dict[str, StateLayout]),
        sources=savepoint.connectors,
        sinks=savepoint.protocols,
    )
