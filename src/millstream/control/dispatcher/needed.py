"""Savepoints that something still needs: a run that begins with one, or a checkpoint that has yet to restore it."""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Row, Select, exists, or_, select

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import held_run
from millstream.control.lifecycle.states import OPEN
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.refusals import StateConflict

_later = execution.alias("later")


def refuse_needed(act: Act, savepoint: Row[Any]) -> None:
    """See that nothing goes on from a savepoint; no run of its job begins either until the transaction ends.

    Raises:
        StateConflict: (CTL-063) a run that has not ended names it, or (CTL-064) one that ended before its first epoch:
            the checkpoint of its job restores it at the next start.
    """
    held_run(act, savepoint.job_id)
    for run in act.connection.execute(_begun_from_one()):
        if not _is_same(run.options["from_savepoint"], savepoint.path):
            continue
        found = f"run {run.execution_id} of {run.job_name} is {run.status}"
        if run.status in OPEN:
            msg, hint = "a run that has not ended starts from the savepoint", "wait for its end, or cancel it"
            raise StateConflict(msg, code="CTL-063", found=found, hint=hint)
        msg = "a run from the savepoint ended before its first epoch, so that the next start restores it again"
        hint = "start the job and let it publish an epoch, or take the job out"
        raise StateConflict(msg, code="CTL-064", found=found, hint=hint)


def _begun_from_one() -> Select[Any]:
    """Runs from a savepoint that may need it: those that are open, and those that a node had and no epoch followed."""
    names_one = execution.c.options["from_savepoint"].as_string().is_not(None)
    same_slot = _later.c.job_id == execution.c.job_id, _later.c.slot_no == execution.c.slot_no
    has_published = exists().where(
        *same_slot, _later.c.id >= execution.c.id, _later.c.progress["epoch"].as_string().is_not(None)
    )
    is_pending = (execution.c.token > 0) & job_definition.c.deleted_time.is_(None) & ~has_published
    with_job = execution.join(job_definition, job_definition.c.id == execution.c.job_id)
    found = select(execution).select_from(with_job).where(names_one, or_(execution.c.status.in_(OPEN), is_pending))
    return found.order_by(execution.c.id.desc())


def _is_same(named: str, path: str) -> bool:
    return os.path.realpath(named) == os.path.realpath(path)
