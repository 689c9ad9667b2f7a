"""What the index of epochs knows to be stored: which start has to find a checkpoint, and what we removed ourselves."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row, select, update

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import version_of
from millstream.control.dispatcher.starting import StartOptions
from millstream.control.metadata.tables.runs import checkpoint, execution
from millstream.control.settings import JobSettings

_IS_STORED = checkpoint.c.status == "COMPLETED", checkpoint.c.storage_path.is_not(None)
"""Epochs with a manifest that we did not remove."""


def expects_state(act: Act, run: Row[Any], settings: JobSettings, options: StartOptions) -> bool:
    """Whether a run has to find a checkpoint, because what it would repeat without one is published already.

    A start that gives the state up, or brings a savepoint, means the run's first epoch: what it has published itself counts.
    """
    known = {each for each in _published(act, run) if _is_same_place(act, run.job_id, each.job_version, settings)}
    begins = options.ignore_state_once or options.from_savepoint is not None
    return any(not begins or each.execution_id == run.execution_id for each in known)


def _published(act: Act, run: Row[Any]) -> list[Row[Any]]:
    with_epochs = select(checkpoint.c.execution_id).where(*_IS_STORED)
    found = select(execution.c.execution_id, execution.c.job_version).where(
        execution.c.job_id == run.job_id,
        execution.c.slot_no == run.slot_no,
        execution.c.execution_id.in_(with_epochs),
    )
    return list(act.connection.execute(found))


def _is_same_place(act: Act, job_id: int, version: int, settings: JobSettings) -> bool:
    """By what the job says, not by paths: the folder of all checkpoints may have moved, and they with it."""
    then = msgspec.convert(version_of(act, job_id, version).settings, JobSettings)
    return (then.checkpoint, then.manifests) == (settings.checkpoint, settings.manifests)


def forget_stored(act: Act, job_id: int, slot: int) -> None:
    """A checkpoint is removed in this act: the next start of the slot begins afresh, and ought to."""
    of_slot = select(execution.c.execution_id).where(execution.c.job_id == job_id, execution.c.slot_no == slot)
    removed = update(checkpoint).where(checkpoint.c.execution_id.in_(of_slot), checkpoint.c.storage_path.is_not(None))
    act.connection.execute(removed.values(storage_path=None))
