"""Runs begin here: persisted first, then claimed by a node. One key per trigger, one open run per slot."""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any

import msgspec
from sqlalchemy import Row, select, update
from sqlalchemy.exc import IntegrityError

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of, unknown_job, version_of
from millstream.control.lifecycle.moves import record
from millstream.control.lifecycle.states import OPEN, Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.upserts import insert_into
from millstream.control.refusals import StateConflict
from millstream.control.secrets.config import read_config
from millstream.errors import InvalidStep


class StartOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the person who starts a run says; stored with it, so that every attempt starts alike."""

    from_savepoint: str | None = None
    allow_dropped_state: bool = False
    ignore_state_once: bool = False
    on_newer_output: str = "refuse"
    carry: str | None = None
    parallelism: int | None = None
    master: str | None = None
    params: dict[str, Any] = {}
    interval_start: str | None = None
    interval_end: str | None = None
    fire_time: str | None = None
    version: int | None = None

    def going_on(self) -> StartOptions:
        """Of a run that goes on where one with these ended: what was said of where that one begins is done."""
        begun = {name: getattr(StartOptions(), name) for name in _OF_BEGINNING}
        return msgspec.structs.replace(self, **begun)


_OF_BEGINNING = ("from_savepoint", "allow_dropped_state", "ignore_state_once", "on_newer_output", "carry")


def options_of(given: dict[str, Any]) -> StartOptions:
    """What was asked for, checked.

    Raises:
        InvalidStep: (CTL-030) an unknown name or a value that does not fit.
    """
    try:
        return msgspec.convert(given, StartOptions)
    except msgspec.ValidationError as problem:
        msg = "the run cannot be started like that"
        known = ", ".join(StartOptions.__struct_fields__)
        raise InvalidStep(msg, code="CTL-030", found=str(problem), known=known, hint="correct that option") from None


def start(act: Act, name: str, options: StartOptions, *, trigger: str | None = None, slot: int = 0) -> Row[Any]:
    """Start a run of a job; the same trigger again gives the same run.

    Raises:
        StateConflict: (CTL-031) the job is switched off, (CTL-032) a run of it has not ended, or (CTL-061) the trigger started
            a run with other options.
    """
    job = job_of(act, name)
    if not job.enabled:
        msg = "the job is switched off"
        raise StateConflict(msg, code="CTL-031", found=repr(name), hint=f"millstream enable {name}")
    run = start_run(act, job, options, trigger=trigger or f"manual:{uuid.uuid4().hex}", slot=slot)
    if run is None:
        raise _occupied(act, job.id, slot)
    _refuse_other(run, options)
    if job.job_type == "STREAMING" and run.status in OPEN:
        # A trigger that was used before gives its run, which may have ended: nobody asked for another one.
        act.connection.execute(update(job_definition).where(job_definition.c.id == job.id).values(desired="RUNNING"))
    return run


_OWN_TRIGGERS = re.compile(r"(desired|rescale|manual|key):|[a-z]+(:.*)?@")
"""Of revived and rescaled runs, fires and keys: who used one up would keep the service from starting its own run."""


def checked_trigger(trigger: str | None) -> str | None:
    """A trigger that somebody names.

    Raises:
        InvalidStep: (CTL-060) triggers of that form are those of the service itself.
    """
    if trigger is not None and _OWN_TRIGGERS.match(trigger):
        msg = "a trigger of that form is the service's own"
        raise InvalidStep(msg, code="CTL-060", found=repr(trigger), hint="name it differently, without `:` and `@`")
    return trigger


def _refuse_other(run: Row[Any], options: StartOptions) -> None:
    if run.options != msgspec.to_builtins(options):
        msg = "the trigger started a run with other options"
        hint = "use another trigger, or ask with the options of that run"
        raise StateConflict(msg, code="CTL-061", found=f"run {run.execution_id}", hint=hint)


def start_run(act: Act, job: Row[Any], options: StartOptions, *, trigger: str, slot: int = 0) -> Row[Any] | None:
    """A run of a job, persisted; `None` where another run holds the slot. The same trigger gives the run that it made."""
    known = select(execution).where(execution.c.job_id == job.id, execution.c.trigger_id == trigger)
    existing = act.connection.execute(known).first()
    if existing is not None:
        return existing
    version = version_of(act, job.id, options.version or job.version)
    values = _new_run(act, job, options, version=version.version, trigger=trigger, slot=slot)
    try:
        # Both unique keys are conflicts here: whose it was is told by looking again.
        added = insert_into(act.connection, execution).values(**values).on_conflict_do_nothing().returning(execution)
        run = act.connection.execute(added).first()
    except IntegrityError as problem:
        msg = "the run could not be written"
        raise StateConflict(msg, code="CTL-033", found=str(problem.orig), hint="try again") from problem
    if run is None:
        return act.connection.execute(known).first()
    _refuse_deleted(act, job)
    cause = act.cause("submitted", trigger=trigger)
    record(act.connection, run.execution_id, "submitted", cause, now=act.now, token=0, after=Status.SCHEDULED)
    return run


def _refuse_deleted(act: Act, job: Row[Any]) -> None:
    """The new row refers to the job: whoever deletes it waits from here on. Who was before us has deleted it by now."""
    left = job_definition.c.id == job.id, job_definition.c.deleted_time.is_(None)
    if act.connection.execute(select(job_definition.c.id).where(*left)).first() is None:
        raise unknown_job(job.job_name)


def _new_run(
    act: Act, job: Row[Any], options: StartOptions, *, version: int, trigger: str, slot: int
) -> dict[str, Any]:
    return {
        "execution_id": uuid.uuid4().hex,
        "job_id": job.id,
        "job_name": job.job_name,
        "status": Status.SCHEDULED,
        "start_time": act.now,
        "not_before": act.now,
        "job_version": version,
        "trigger_id": trigger,
        "slot_no": slot,
        "options": msgspec.to_builtins(options),
        "config": dataclasses.asdict(read_config(act.connection, job.id)),
        "failures": [],
    }


def _occupied(act: Act, job_id: int, slot: int) -> StateConflict:
    matching = execution.c.job_id == job_id, execution.c.slot_no == slot, execution.c.status.in_(OPEN)
    other = act.connection.execute(select(execution.c.execution_id, execution.c.status).where(*matching)).first()
    found = "a run" if other is None else f"run {other.execution_id} is {other.status}"
    msg = "the job runs already"
    raise StateConflict(msg, code="CTL-032", found=found, hint="stop it first, or wait for its end")
