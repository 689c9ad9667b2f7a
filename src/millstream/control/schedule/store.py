"""What people do with schedules: save, show, pause, resume, fire and delete. Each is part of the caller's transaction."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, select, text, update

from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.tables.schedules import schedule, schedule_fire
from millstream.control.refusals import StaleVersion, UnknownName
from millstream.control.schedule.arrivals import check_roots
from millstream.control.schedule.dependency import refuse_cycle
from millstream.control.schedule.firing import FireResult, Firing, JobFires, RunActs
from millstream.control.schedule.hooks import claim_hook, drop_hook
from millstream.control.schedule.kinds import first_time, watched_pattern
from millstream.control.schedule.rows import StoredSchedule, insert_new, locked_schedule, read, reading
from millstream.control.schedule.spec import ScheduleSpec, schedule_spec, stored_spec
from millstream.control.schedule.upstream import interval_of, newest_event
from millstream.errors import InvalidStep

_LOCK = 7_214_650_212
"""One number for saving what jobs wait for: two that are saved at the same time could make a circle."""
_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def set_schedule(
    connection: Connection,
    job_id: int,
    document: Mapping[str, Any],
    *,
    now: dt.datetime,
    roots: Sequence[Path] = (),
    seen: int | None = None,
) -> StoredSchedule:
    """Save the schedule of a job. It counts from now: nothing fires at once, and nothing that was before comes again.

    Args:
        connection: the transaction.
        job_id: the job.
        document: the values below `schedule:`.
        now: what time it is.
        roots: folders in which files may be watched.
        seen: the revision that the caller has seen; another one that is there now is refused. 0: there was none.

    Raises:
        InvalidStep: (CTL-201 to CTL-210) a value does not fit.
        StateConflict: (CTL-211) jobs would wait for each other, (CTL-212) another job has the webhook.
        StaleVersion: (CTL-217) it was changed meanwhile.
        UnknownName: (CTL-010) there is no such job.
    """
    spec = schedule_spec(document)
    job = _job(connection, job_id)
    before = locked_schedule(connection, job_id)
    _check_seen(before, seen)
    _check_surroundings(connection, job, spec, roots)
    values = _columns(spec, before, now, newest_event(connection) if spec.waits_for else 0)
    if before is None:
        if insert_new(connection, schedule, {"job_id": job_id, **values}) is None:
            raise _changed_meanwhile(seen="none", there="another one")
    else:
        connection.execute(update(schedule).where(schedule.c.job_id == job_id).values(**values))
    claim_hook(connection, job_id, spec)
    return get_schedule(connection, job_id)


def get_schedule(connection: Connection, job_id: int) -> StoredSchedule:
    """The schedule of a job.

    Raises:
        UnknownName: (CTL-218) it has none.
    """
    row = connection.execute(reading().where(schedule.c.job_id == job_id)).one_or_none()
    if row is None:
        msg = "the job has no schedule"
        raise UnknownName(msg, code="CTL-218", found=job_id, hint="save one first")
    return read(row)


def pause_schedule(connection: Connection, job_id: int) -> StoredSchedule:
    """Decide nothing more for a job until it is resumed; runs go on."""
    _locked(connection, job_id)
    connection.execute(update(schedule).where(schedule.c.job_id == job_id).values(enabled=False))
    return get_schedule(connection, job_id)


def resume_schedule(connection: Connection, job_id: int, *, now: dt.datetime) -> StoredSchedule:
    """Go on from now: what would have fired meanwhile does not."""
    stored = _locked(connection, job_id)
    if not stored.enabled:
        state = {**stored.state, "resumed": now.isoformat(), "files": {}, "event": newest_event(connection)}
        first = first_time(stored.spec, max(stored.decided, now))
        values = {"enabled": True, "next_trigger_time": first, "event_cursor": state}
        connection.execute(update(schedule).where(schedule.c.job_id == job_id).values(**values))
    return get_schedule(connection, job_id)


def delete_schedule(connection: Connection, job_id: int) -> None:
    """Take the schedule of a job away; what it decided stays, what waited is skipped."""
    _locked(connection, job_id)
    drop_hook(connection, job_id)
    waiting = (schedule_fire.c.result == "QUEUED", schedule_fire.c.job_id == job_id)
    values = {"result": "SKIPPED", "reason": "the schedule was deleted"}
    connection.execute(update(schedule_fire).where(*waiting).values(**values))
    connection.execute(delete(schedule).where(schedule.c.job_id == job_id))


def fire_now(connection: Connection, job_id: int, *, key: str, now: dt.datetime, acts: RunActs) -> FireResult:
    """Fire the schedule of a job by hand, paused or not; the same key again gives the same run.

    Raises:
        InvalidStep: (CTL-210) the key has no form.
    """
    if not _KEY.fullmatch(key):
        msg = "schedule: the key of the fire does not fit"
        known = "1 to 128 letters, digits, '_', '.', ':', '-'"
        raise InvalidStep(msg, code="CTL-210", found=repr(key), known=known, hint="choose another key")
    stored = _locked(connection, job_id)
    firing = Firing(now, f"manual:{key}", interval_of(connection, stored.spec, now))
    there = _fired_before(connection, job_id, firing)
    if there is not None:
        return there
    fires = JobFires(connection, stored, acts, now)
    result = fires.fire(firing)
    assert result is not None, "the row of the schedule is locked, so nobody else wrote it"
    return result


def next_fires(stored: StoredSchedule, now: dt.datetime, count: int = 5) -> list[dt.datetime]:
    """When it fires next by the clock, paused or not."""
    times = stored.spec.times
    return list(itertools.islice(times.from_(max(stored.decided, now)), count)) if times is not None else []


def past_fires(
    connection: Connection, job_id: int, *, beyond: tuple[dt.datetime, str] | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """What was decided, the newest first; `beyond` is time and cause of the last one of the page before."""
    at, cause = schedule_fire.c.fire_time, schedule_fire.c.cause
    found = select(schedule_fire).where(schedule_fire.c.job_id == job_id)
    if beyond is not None:
        found = found.where((at < beyond[0]) | ((at == beyond[0]) & (cause < beyond[1])))
    newest = found.order_by(at.desc(), cause.desc()).limit(limit)
    return [dict(row._mapping) for row in connection.execute(newest)]


def shown_schedule(stored: StoredSchedule, now: dt.datetime) -> dict[str, Any]:
    """A schedule for people. What waits for events has no next time: the stored one says when the loop looks again."""
    fires = next_fires(stored, now)
    return {
        "job": stored.job,
        "schedule": stored_spec(stored.spec),
        "enabled": stored.enabled,
        "revision": stored.revision,
        "revised_at": stored.revised_at,
        "next_trigger_time": stored.next_time if stored.enabled and fires else None,
        "next": fires,
    }


def _job(connection: Connection, job_id: int) -> str:
    there = (job_definition.c.id == job_id, job_definition.c.deleted_time.is_(None))
    name: str | None = connection.execute(select(job_definition.c.job_name).where(*there)).scalar()
    if name is None:
        msg = "there is no such job"
        raise UnknownName(msg, code="CTL-010", found=job_id, hint="list the jobs")
    return name


def _locked(connection: Connection, job_id: int) -> StoredSchedule:
    return locked_schedule(connection, job_id) or get_schedule(connection, job_id)


def _check_seen(before: StoredSchedule | None, seen: int | None) -> None:
    revision = before.revision if before is not None else 0
    if seen is not None and seen != revision:
        raise _changed_meanwhile(seen=f"revision {seen}", there=f"revision {revision}")


def _changed_meanwhile(*, seen: str, there: str) -> StaleVersion:
    text = "the schedule was changed meanwhile"
    return StaleVersion(text, code="CTL-217", found=seen, known=there, hint="read it again, and change that")


def _check_surroundings(connection: Connection, job: str, spec: ScheduleSpec, roots: Sequence[Path]) -> None:
    pattern = watched_pattern(spec)
    if pattern is not None:
        check_roots(pattern, roots)
    if not spec.waits_for:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    there = (job_definition.c.job_name.in_(list(spec.waits_for)), job_definition.c.deleted_time.is_(None))
    missing = spec.waits_for.keys() - set(connection.execute(select(job_definition.c.job_name).where(*there)).scalars())
    if missing:
        msg = "schedule: it waits for jobs that are not there"
        raise InvalidStep(msg, code="CTL-213", found=", ".join(sorted(missing)), hint="submit these jobs first")
    kinds = schedule.c.schedule_type.in_(["DEPENDENCY", "EVENT"])
    others = [read(row) for row in connection.execute(reading().where(kinds))]
    refuse_cycle(job, spec.waits_for, {each.job: each.spec.waits_for for each in others if each.job != job})


def _columns(spec: ScheduleSpec, before: StoredSchedule | None, now: dt.datetime, event: int) -> dict[str, Any]:
    state = before.state if before is not None else {}
    # Where the clock was put back, what is decided already stays decided.
    kept = {name: state[name] for name in ("until", "values") if name in state}
    start = max(now, dt.datetime.fromisoformat(kept["until"])) if "until" in kept else now
    return {
        "schedule_type": spec.type.upper(),
        "cron_expression": spec.cron,
        "enabled": spec.enabled if spec.enabled is not None else before is None or before.enabled,
        "next_trigger_time": first_time(spec, start),
        "time_zone": spec.time_zone,
        "misfire": spec.misfire,
        "grace_seconds": int(spec.grace_time.total_seconds()),
        "concurrency": spec.concurrency,
        "spec": stored_spec(spec),
        "revision": before.revision + 1 if before is not None else 1,
        "revised_at": now,
        "event_cursor": {"event": event, **kept},
    }


def _fired_before(connection: Connection, job_id: int, firing: Firing) -> FireResult | None:
    mine = (execution.c.job_id == job_id, execution.c.trigger_id == firing.trigger_id)
    run = connection.execute(select(execution.c.execution_id).where(*mine)).scalar()
    if run is not None:
        return FireResult(firing.fire_time, firing.cause, "FIRED", None, run)
    waits = (
        schedule_fire.c.job_id == job_id,
        schedule_fire.c.result == "QUEUED",
        schedule_fire.c.cause == firing.cause,
    )
    row = connection.execute(select(schedule_fire).where(*waits)).first()
    return None if row is None else FireResult(row.fire_time, firing.cause, "QUEUED", row.reason, None)
