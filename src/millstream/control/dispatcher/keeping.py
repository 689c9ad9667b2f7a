"""Checkpoints that outlive their runs: what is there, and what becomes of it when a run or a job ends. Savepoints stay."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.checkpoint.aside import set_aside
from millstream.control.act import Act
from millstream.control.dispatcher.definitions import held_run, unknown_job, version_of
from millstream.control.dispatcher.stored import forget_stored
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.nodes.placing import checkpoint_of, slots_of
from millstream.control.refusals import StateConflict, UnknownName
from millstream.control.settings import JobSettings

_log = logging.getLogger(__name__)


def is_kept(settings: JobSettings, ended: Status) -> bool:
    """Whether the checkpoint of a run outlives it: a suspended one always does, people want to go on from it."""
    if settings.keep_checkpoint == "always" or ended not in (Status.COMPLETED, Status.CANCELLED, Status.DEAD):
        return True
    return settings.keep_checkpoint == "on_failure" and ended == Status.DEAD


def clear_after(act: Act, run: Row[Any], root: Path, aside: list[Path]) -> None:
    """A run has ended: its checkpoint goes, if its job does not want to keep it.

    One that failed while it was to be suspended or drained was not cancelled by anybody: people want to go on from it.
    """
    if run.status == Status.CANCELLED and run.wanted != "cancel":
        return
    version = version_of(act, run.job_id, run.job_version)
    settings = msgspec.convert(version.settings, JobSettings)
    if not is_kept(settings, Status(run.status)):
        try:
            aside += set_aside(Path(checkpoint_of(settings, root, run.job_name, run.slot_no)))
        except OSError as problem:
            _log.warning("the checkpoint of run %s could not be removed: %s", run.execution_id, problem)
        else:
            forget_stored(act, run.job_id, run.slot_no)


def checkpoints(act: Act, root: Path) -> list[dict[str, Any]]:
    """The checkpoints of every job, one of each slot, with what they take on disk; of deleted jobs too."""
    listed = []
    for job in act.connection.execute(select(job_definition).order_by(job_definition.c.job_name)):
        for path in _places(job, root).values():
            size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file() and not each.is_symlink())
            listed.append(
                {"job": job.job_name, "path": str(path), "bytes": size, "deleted": job.deleted_time is not None}
            )
    return listed


def drop_checkpoint(act: Act, name: str, root: Path, aside: list[Path]) -> list[str]:
    """Set the checkpoints of a job aside that does not run, deleted or not; its next start begins afresh, or from a savepoint.

    Raises:
        StateConflict: (CTL-048) a run of it has not ended.
        UnknownName: (CTL-049) there is nothing to remove.
    """
    job = act.connection.execute(select(job_definition).where(job_definition.c.job_name == name)).first()
    if job is None:
        raise unknown_job(name)
    run = held_run(act, job.id)
    if run is not None:
        msg = "a run of the job uses its checkpoint"
        raise StateConflict(msg, code="CTL-048", found=f"run {run}", hint="stop it first")
    removed = []
    for slot, path in _places(job, root).items():
        parts = set_aside(path)
        if parts:
            aside += parts
            removed.append(str(path))
            forget_stored(act, job.id, slot)
    if not removed:
        msg = "the job has no checkpoint"
        raise UnknownName(msg, code="CTL-049", found=_base(job, root), hint="there is nothing to remove")
    return removed


def _places(job: Row[Any], root: Path) -> dict[int, Path]:
    """The checkpoints of a job that are there, by slot."""
    return slots_of(_base(job, root))


def _base(job: Row[Any], root: Path) -> str:
    return checkpoint_of(msgspec.convert(job.settings, JobSettings), root, job.job_name, 0)
