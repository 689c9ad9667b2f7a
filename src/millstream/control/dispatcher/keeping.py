"""Checkpoints that outlive their runs: what is there, and what becomes of it when a run or a job ends. Savepoints stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import held_run, job_of, version_of
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.nodes.placing import checkpoint_of
from millstream.control.refusals import StateConflict, UnknownName
from millstream.control.settings import JobSettings

_OURS = "millstream"
_STAYS = "savepoints"


def is_kept(settings: JobSettings, ended: Status) -> bool:
    """Whether the checkpoint of a run outlives it: a suspended one always does, people want to go on from it."""
    if settings.keep_checkpoint == "always" or ended not in (Status.COMPLETED, Status.CANCELLED, Status.DEAD):
        return True
    return settings.keep_checkpoint == "on_failure" and ended == Status.DEAD


def clear_after(act: Act, run: Row[Any], root: Path) -> None:
    """A run has ended: its checkpoint goes, if its job does not want to keep it.

    One that failed while it was to be suspended or drained was not cancelled by anybody: people want to go on from it.
    """
    if run.status == Status.CANCELLED and run.wanted != "cancel":
        return
    version = version_of(act, run.job_id, run.job_version)
    settings = msgspec.convert(version.settings, JobSettings)
    if not is_kept(settings, Status(run.status)):
        remove_checkpoint(Path(checkpoint_of(settings, root, run.job_name, run.slot_no)))


def remove_checkpoint(path: Path) -> bool:
    """Remove what a checkpoint consists of, apart from savepoints; what does not look like one is left alone."""
    if not (path / _OURS).is_dir() or path.is_symlink():
        return False
    for part in path.iterdir():
        if part.name == _STAYS:
            continue
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink()
    if not any(path.iterdir()):
        path.rmdir()
    return True


def checkpoints(act: Act, root: Path) -> list[dict[str, Any]]:
    """The checkpoint of every job, with what it takes on disk; of deleted jobs too."""
    listed = []
    for job in act.connection.execute(select(job_definition).order_by(job_definition.c.job_name)):
        path = _place(job, root)
        if path.is_dir():
            size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file() and not each.is_symlink())
            listed.append(
                {"job": job.job_name, "path": str(path), "bytes": size, "deleted": job.deleted_time is not None}
            )
    return listed


def drop_checkpoint(act: Act, name: str, root: Path) -> str:
    """Remove the checkpoint of a job that does not run; its next start begins afresh, or from a savepoint.

    Raises:
        StateConflict: (CTL-048) a run of it has not ended.
        UnknownName: (CTL-049) there is nothing to remove.
    """
    job = job_of(act, name)
    run = held_run(act, job.id)
    if run is not None:
        msg = "a run of the job uses its checkpoint"
        raise StateConflict(msg, code="CTL-048", found=f"run {run}", hint="stop it first")
    path = _place(job, root)
    if not remove_checkpoint(path):
        msg = "the job has no checkpoint"
        raise UnknownName(msg, code="CTL-049", found=str(path), hint="there is nothing to remove")
    return str(path)


def _place(job: Row[Any], root: Path) -> Path:
    return Path(checkpoint_of(msgspec.convert(job.settings, JobSettings), root, job.job_name, 0))
