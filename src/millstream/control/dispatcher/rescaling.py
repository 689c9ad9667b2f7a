"""Rescaling: a run is suspended and started again at another parallelism, as one operation."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row, insert, select, update

from millstream.control.act import Act
from millstream.control.dispatcher.starting import StartOptions, start_run
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition, job_version
from millstream.control.metadata.tables.runs import execution
from millstream.control.operations import AskedUnder, done, open_operation, open_operations
from millstream.control.refusals import StateConflict
from millstream.errors import InvalidStep

RESCALE = "rescale"


def rescale(act: Act, run: Row[Any], parallelism: int, asked: AskedUnder | None = None) -> str:
    """Ask a run to go on at another parallelism; gives the operation that names the run that does.

    Raises:
        StateConflict: (CTL-046) it does not run, or is ending.
    """
    if parallelism < 1:
        msg = "parallelism counts subtasks"
        raise InvalidStep(msg, code="CTL-047", found=parallelism, known="1 or more", hint="correct parallelism")
    runs = execution.c.status.in_((Status.RUNNING, Status.CHECKPOINTING))
    matching = execution.c.id == run.id, runs, execution.c.wanted.is_(None)
    changed = update(execution).where(*matching).values(wanted="suspend", wanted_at=act.now)
    if act.connection.execute(changed.returning(execution.c.id)).first() is None:
        msg = "only a run that runs, and is not ending, can be rescaled"
        found = f"{run.status}, wanted {run.wanted}"
        raise StateConflict(msg, code="CTL-046", found=found, hint="start the job with that parallelism instead")
    return open_operation(act, RESCALE, run.execution_id, asked, parallelism=parallelism)


def go_on(act: Act, run: Row[Any], savepoint: str | None) -> None:
    """A run is suspended: if it was to be rescaled, the next one starts from its savepoint, in the same transaction."""
    for operation in open_operations(act, run.execution_id, (RESCALE,)):
        parallelism = operation.result["wish"]["parallelism"]
        job = _with_parallelism(act, run.job_id, parallelism)
        before = msgspec.convert(run.options, StartOptions).going_on()
        options = msgspec.structs.replace(before, from_savepoint=savepoint, parallelism=parallelism, version=None)
        started = start_run(act, job, options, trigger=f"rescale:{operation.id}", slot=run.slot_no)
        if started is not None:
            done(act, operation.id, run=started.execution_id, parallelism=parallelism, savepoint=savepoint)


def _with_parallelism(act: Act, job_id: int, parallelism: int) -> Row[Any]:
    """A version of the job with that parallelism: its next start must not fall back to the old one."""
    newest = update(job_definition).where(job_definition.c.id == job_id)
    newest = newest.values(version=job_definition.c.version + 1, parallelism=parallelism, update_time=act.now)
    job = act.connection.execute(newest.returning(job_definition)).one()
    of_before = job_version.c.job_id == job_id, job_version.c.version == job.version - 1
    before = act.connection.execute(select(job_version).where(*of_before)).one()
    changed = {"version": job.version, "parallelism": parallelism, "create_time": act.now, "created_by": act.actor}
    act.connection.execute(insert(job_version).values(**{**before._mapping, **changed}))
    return job
