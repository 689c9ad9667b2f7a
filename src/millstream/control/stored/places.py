"""From what somebody names to where it lies: a run and its epoch, or a savepoint; a job whose dead letters are meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.contract.driver_protocol import RunSpec
from millstream.contract.stored_questions import StatePlace
from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of, version_of
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import FINAL
from millstream.control.metadata.tables.runs import checkpoint, execution, savepoint
from millstream.control.nodes.placing import Places, checkpoint_of, spec_of
from millstream.control.refusals import StateConflict, UnknownName
from millstream.control.secrets.config import read_config
from millstream.control.settings import JobSettings


class StateOf(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint by its number, or a run with one of its epochs, the newest by default."""

    savepoint: int | None = None
    run: str | None = None
    epoch: int | None = None


def place_of(act: Act, of: StateOf, root: Path) -> StatePlace:
    """Where it lies on the node that asks.

    Raises:
        UnknownName: (REST-034, CTL-034, CTL-143) there is none, or the run has no such epoch.
        StateConflict: (REST-033) the savepoint was disposed of.
    """
    if of.savepoint is not None:
        return StatePlace(path=savepoint_of(act, of.savepoint).path)
    run = run_of(act, of.run or "")
    settings = msgspec.convert(version_of(act, run.job_id, run.job_version).settings, JobSettings)
    return StatePlace(
        path=checkpoint_of(settings, root, run.job_name, run.slot_no),
        manifests=settings.manifests,
        epoch=_epoch(run, of.epoch),
        lineage=_lineage(act, run),
    )


def savepoint_of(act: Act, number: int) -> Row[Any]:
    """A savepoint that is there."""
    row = act.connection.execute(select(savepoint).where(savepoint.c.id == number)).first()
    if row is None:
        msg = "there is no such savepoint"
        raise UnknownName(msg, code="REST-034", found=str(number), hint="list the savepoints of the job")
    if row.status != "READY":
        msg = "the savepoint was disposed of already"
        raise StateConflict(msg, code="REST-033", found=row.status, hint="name another")
    return row


def _epoch(run: Row[Any], wanted: int | None) -> int | None:
    """Of a run that ended the newest is its own last one: a later run may have gone on from there."""
    newest = (run.progress or {}).get("epoch")
    if run.status not in FINAL:
        return wanted
    if newest is None or (wanted is not None and wanted > newest):
        msg = "the run has no such epoch" if newest is not None else "the run came to no epoch"
        found = None if wanted is None else str(wanted)
        raise UnknownName(msg, code="CTL-143", found=found, known=_up_to(newest), hint="list its epochs")
    return newest if wanted is None else wanted


def _up_to(newest: int | None) -> str:
    return "no epoch" if newest is None else f"epochs up to {newest}"


def _lineage(act: Act, run: Row[Any]) -> str | None:
    """The lineage of the run's newest epoch that is known."""
    mine = checkpoint.c.execution_id == run.execution_id, checkpoint.c.status == "COMPLETED"
    newest = select(checkpoint.c.state_data).where(*mine).order_by(checkpoint.c.checkpoint_id.desc()).limit(10)
    known = [each.get("lineage") for each in act.connection.execute(newest).scalars() if each]
    return known[0] if known else None


def newest_run(act: Act, job: str) -> Row[Any]:
    """The run of a job that was started last.

    Raises:
        UnknownName: (CTL-144) it has never run.
    """
    row = job_of(act, job)
    found = select(execution).where(execution.c.job_id == row.id).order_by(execution.c.id.desc()).limit(1)
    run = act.connection.execute(found).first()
    if run is None:
        msg = "the job has never run, so nothing of it is stored"
        raise UnknownName(msg, code="CTL-144", found=repr(job), hint=f"start it: millstream start {job}")
    return run


def letters_spec(act: Act, run: Row[Any], places: Places) -> RunSpec:
    """What a reading process is told of a job: as it runs, or as its next run will be."""
    spec = spec_of(act, run, run.token, places)
    if run.status not in FINAL:
        return spec
    job = job_of(act, run.job_name)
    version = version_of(act, job.id, job.version)
    config = read_config(act.connection, job.id)
    return msgspec.structs.replace(
        spec,
        definition=version.dag_definition,
        artifact=version.artifact_sha256,
        config=config.settings,
        params={**spec.params, **config.params},
        secret_names=list((version.plan or {}).get("secrets", [])),
    )
