"""Definitions of jobs: submitted once per name, every change a version of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row, insert, select, update
from sqlalchemy import delete as delete_from

from millstream.control.act import Act
from millstream.control.dispatcher.planned import Planned
from millstream.control.lifecycle.states import OPEN
from millstream.control.metadata.tables.jobs import job_config, job_definition, job_version
from millstream.control.metadata.tables.runs import checkpoint, execution
from millstream.control.metadata.tables.schedules import backfill, hook, hook_call, schedule, schedule_fire
from millstream.control.metadata.upserts import insert_into
from millstream.control.refusals import StaleVersion, StateConflict, UnknownName
from millstream.control.settings import JobSettings


class Submission(NamedTuple):
    """A job as somebody hands it in, compiled."""

    planned: Planned
    definition: dict[str, Any]
    settings: JobSettings
    parallelism: int | None = None
    max_retry_times: int = 3
    description: str | None = None
    artifact: str | None = None


def submit(act: Act, job: Submission) -> Row[Any]:
    """Take a new job in; a name that was deleted may be taken again: its versions go on, and all else begins anew.

    Raises:
        StateConflict: (CTL-021) there is a job of that name, or (CTL-062) the deleted one left a checkpoint.
    """
    values = {**_columns(job), "version": 1, "create_time": act.now, "update_time": act.now}
    added = insert_into(act.connection, job_definition).values(**values, desired="STOPPED").on_conflict_do_nothing()
    row = act.connection.execute(added.returning(job_definition)).first()
    row = row or _revived(act, job)
    _write_version(act, row, job)
    return row


def _revived(act: Act, job: Submission) -> Row[Any]:
    name = job.planned.name
    matching = job_definition.c.job_name == name, job_definition.c.deleted_time.is_not(None)
    values = {**_columns(job), "version": job_definition.c.version + 1, "update_time": act.now, "deleted_time": None}
    changed = update(job_definition).where(*matching).values(**values, desired="STOPPED", enabled=True)
    row = act.connection.execute(changed.returning(job_definition)).first()
    if row is None:
        msg = f"there is a job {name!r} already"
        hint = "submit it as a new version, or under another name"
        raise StateConflict(msg, code="CTL-021", found=repr(name), hint=hint)
    _refuse_left(act, row)
    return row


def _refuse_left(act: Act, job: Row[Any]) -> None:
    """What another job of that name stored is not taken over without a word."""
    of_job = select(checkpoint.c.storage_path).join(execution, execution.c.execution_id == checkpoint.c.execution_id)
    left = of_job.where(execution.c.job_id == job.id, checkpoint.c.storage_path.is_not(None))
    place = act.connection.execute(left.order_by(checkpoint.c.id.desc()).limit(1)).scalar()
    if place is not None:
        msg = f"a job {job.job_name!r} that was deleted left a checkpoint"
        hint = f"remove it: millstream checkpoint rm {job.job_name}; to go on from it, take a savepoint of it before"
        raise StateConflict(msg, code="CTL-062", found=place, hint=hint)


def new_version(act: Act, name: str, job: Submission, *, expected: int | None) -> Row[Any]:
    """Replace the definition of a job; runs that go on keep theirs until they are started again.

    Raises:
        StaleVersion: (CTL-022) it is no longer at the version that the asker had seen.
    """
    now = job_of(act, name)
    if job.planned.name != name:
        msg = "the definition names another job"
        raise StateConflict(msg, code="CTL-023", found=repr(job.planned.name), known=repr(name), hint="keep its name")
    if expected is not None and now.version != expected:
        raise _stale(now.version, expected)
    matching = job_definition.c.id == now.id, job_definition.c.version == now.version
    changed = update(job_definition).where(*matching)
    changed = changed.values(**_columns(job), version=now.version + 1, update_time=act.now)
    row = act.connection.execute(changed.returning(job_definition)).first()
    if row is None:
        raise _stale(now.version + 1, now.version)
    _write_version(act, row, job)
    return row


def _stale(found: int, expected: int) -> StaleVersion:
    msg = "the job was changed in the meantime"
    hint = "read it again, and make the change to what it is now"
    return StaleVersion(msg, code="CTL-022", found=f"version {found}", known=f"version {expected}", hint=hint)


def _columns(job: Submission) -> dict[str, Any]:
    return {
        "job_name": job.planned.name,
        "job_type": job.planned.mode,
        "dag_definition": job.definition,
        "description": job.description,
        "parallelism": job.parallelism,
        "max_retry_times": job.max_retry_times,
        "fingerprint": job.planned.fingerprint,
        "artifact_sha256": job.artifact,
        "settings": msgspec.to_builtins(job.settings),
    }


def _write_version(act: Act, row: Row[Any], job: Submission) -> None:
    values = {
        "job_id": row.id,
        "version": row.version,
        "dag_definition": job.definition,
        "parallelism": job.parallelism,
        "settings": msgspec.to_builtins(job.settings),
        "plan": msgspec.to_builtins(job.planned),
        "fingerprint": job.planned.fingerprint,
        "artifact_sha256": job.artifact,
        "create_time": act.now,
        "created_by": act.actor,
    }
    act.connection.execute(insert(job_version).values(**values))


def job_of(act: Act, name: str) -> Row[Any]:
    """A job by its name, or by the number of its row.

    Raises:
        UnknownName: (CTL-024) there is none.
    """
    matching = job_definition.c.job_name == name
    row = act.connection.execute(
        select(job_definition).where(matching, job_definition.c.deleted_time.is_(None))
    ).first()
    if row is None:
        raise unknown_job(name)
    return row


def held_job(act: Act, name: str) -> Row[Any]:
    """The same, which nobody else changes until the transaction ends; runs of it may begin."""
    matching = job_definition.c.id == job_of(act, name).id, job_definition.c.deleted_time.is_(None)
    held = select(job_definition).where(*matching).with_for_update(key_share=True)
    row = act.connection.execute(held).first()
    if row is None:
        raise unknown_job(name)
    return row


def unknown_job(name: str) -> UnknownName:
    """There is none of that name, or none any more."""
    msg = "there is no such job"
    return UnknownName(msg, code="CTL-024", found=repr(name), hint="see what there is: millstream list")


def version_of(act: Act, job_id: int, version: int) -> Row[Any]:
    """One version of a job.

    Raises:
        UnknownName: (CTL-025) it has none of that number.
    """
    matching = job_version.c.job_id == job_id, job_version.c.version == version
    row = act.connection.execute(select(job_version).where(*matching)).first()
    if row is None:
        msg = "the job has no such version"
        raise UnknownName(msg, code="CTL-025", found=str(version), hint="list its versions")
    return row


def change(act: Act, name: str, **values: Any) -> Row[Any]:
    """Switch a job on or off, or change how often it is tried again: no version of its own."""
    job = job_of(act, name)
    changed = update(job_definition).where(job_definition.c.id == job.id).values(update_time=act.now, **values)
    return act.connection.execute(changed.returning(job_definition)).one()


def held_run(act: Act, job_id: int) -> str | None:
    """A run of a job that has not ended. Where there is none, none begins either until the transaction ends.

    Who starts one writes a row that refers to the job, and so waits for this lock, or is seen by us.
    """
    act.connection.execute(select(job_definition.c.id).where(job_definition.c.id == job_id).with_for_update())
    open_runs = select(execution.c.execution_id).where(execution.c.job_id == job_id, execution.c.status.in_(OPEN))
    return act.connection.execute(open_runs.limit(1)).scalar()


def delete(act: Act, name: str) -> Row[Any]:
    """Take a job out; its runs, checkpoint and savepoints stay, its settings, schedule and hooks go, its name is free.

    Raises:
        StateConflict: (CTL-026) a run of it has not ended.
    """
    job = job_of(act, name)
    # First: who starts runs by a schedule or a hook holds those, and then the job.
    _remove_belongings(act, job.id)
    active = held_run(act, job.id)
    if active is not None:
        msg = "a run of the job has not ended"
        raise StateConflict(msg, code="CTL-026", found=f"run {active}", hint="stop or cancel it first")
    return change(act, name, deleted_time=act.now, desired="STOPPED")


def _remove_belongings(act: Act, job_id: int) -> None:
    """What would run a later job of the same name, or tell it secrets of this one."""
    calls = select(hook.c.name).where(hook.c.job_id == job_id)
    act.connection.execute(delete_from(hook_call).where(hook_call.c.name.in_(calls)))
    act.connection.execute(delete_from(hook).where(hook.c.job_id == job_id))
    filled = update(backfill).where(backfill.c.job_id == job_id, backfill.c.status == "RUNNING")
    act.connection.execute(filled.values(status="CANCELLED", end_time=act.now))
    act.connection.execute(delete_from(schedule).where(schedule.c.job_id == job_id))
    waits = update(schedule_fire).where(schedule_fire.c.job_id == job_id, schedule_fire.c.result == "QUEUED")
    act.connection.execute(waits.values(result="SKIPPED", reason="the job was deleted"))
    act.connection.execute(delete_from(job_config).where(job_config.c.job_id == job_id))
