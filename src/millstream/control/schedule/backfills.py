"""Backfills in the tables: created, shown, cancelled, and carried on by the loop, a few runs at a time."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from millstream.control.lifecycle.states import OPEN
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.tables.schedules import backfill, schedule_fire
from millstream.control.refusals import StateConflict, UnknownName
from millstream.control.schedule.backfill import FIRST_SLOT, BackfillPlan, Interval, check_plan, intervals, preview
from millstream.control.schedule.cron import CronTimes
from millstream.control.schedule.firing import FireResult, Firing, JobFires, RunActs
from millstream.control.schedule.rows import StoredSchedule, insert_new, locked_schedule
from millstream.errors import ExternalFailure, InvalidStep

_MOST_STARTS = 20
"""So many runs of one backfill are started in one transaction."""


def backfill_intervals(stored: StoredSchedule, plan: BackfillPlan, now: dt.datetime) -> list[Interval]:
    """What a backfill would run, in its order.

    Raises:
        InvalidStep: (CTL-209) it cannot be filled.
    """
    check_plan(plan, now)
    return preview(_times(stored), plan)


def create_backfill(
    connection: Connection, stored: StoredSchedule, plan: BackfillPlan, *, key: str, actor: str, now: dt.datetime
) -> int:
    """Begin a backfill and give its number; the same key again gives the same one.

    Raises:
        InvalidStep: (CTL-209) it cannot be filled.
        StateConflict: (CTL-215) the key stands for another backfill.
    """
    backfill_intervals(stored, plan, now)
    asked = {
        "job_id": stored.job_id,
        "from_time": plan.after,
        "to_time": plan.until,
        "direction": plan.direction,
        "max_parallel": plan.max_parallel,
    }
    facts = {"trigger_id": key, "status": "RUNNING", "create_time": now, "actor": actor}
    made = insert_new(connection, backfill, {**asked, **facts})
    if made is not None:
        return int(made.id)
    mine = (backfill.c.job_id == stored.job_id, backfill.c.trigger_id == key)
    there = connection.execute(select(backfill).where(*mine)).one()
    if any(getattr(there, name) != value for name, value in asked.items()):
        msg = "backfill: the key stands for another backfill of this job"
        raise StateConflict(msg, code="CTL-215", found=key, hint="use another key for another backfill")
    return int(there.id)


def cancel_backfill(connection: Connection, job_id: int, number: int, now: dt.datetime) -> bool:
    """Start no more runs of it; those that run go on. `False` says that it had ended already.

    Raises:
        UnknownName: (CTL-216) the job has no such backfill.
    """
    mine = (backfill.c.id == number, backfill.c.job_id == job_id)
    if connection.execute(select(backfill.c.id).where(*mine)).scalar() is None:
        msg = "backfill: the job has none of that number"
        raise UnknownName(msg, code="CTL-216", found=number, hint="list the backfills of the job")
    return _end(connection, number, "CANCELLED", now)


def backfills(connection: Connection, job_id: int, *, limit: int = 100) -> list[dict[str, Any]]:
    """Backfills of a job, the newest first."""
    found = select(backfill).where(backfill.c.job_id == job_id).order_by(backfill.c.id.desc()).limit(limit)
    return [dict(row._mapping) for row in connection.execute(found)]


def continue_backfills(
    metadata: Metadata, now: dt.datetime, acts: RunActs, stuck: list[tuple[int, Exception]]
) -> list[tuple[int, FireResult]]:
    """Start the next runs of every backfill that is under way; those that cannot go on are added to `stuck`."""
    with metadata.begin() as connection:
        numbers = list(connection.execute(select(backfill.c.id).where(backfill.c.status == "RUNNING")).scalars())
    started: list[tuple[int, FireResult]] = []
    for number in numbers:
        try:
            with metadata.begin() as connection:
                started += _continue(connection, number, now, acts)
        except ExternalFailure:
            raise
        except Exception as problem:
            stuck.append((number, problem))
    return started


def _continue(connection: Connection, number: int, now: dt.datetime, acts: RunActs) -> list[tuple[int, FireResult]]:
    under_way = select(backfill).where(backfill.c.id == number, backfill.c.status == "RUNNING")
    row = connection.execute(under_way.with_for_update(skip_locked=True)).one_or_none()
    stored = locked_schedule(connection, row.job_id) if row is not None else None
    if row is None:
        return []
    if stored is None or stored.spec.times is None:
        _end(connection, number, "CANCELLED", now)
        return []
    fires = JobFires(connection, stored, acts, now)
    cause = f"backfill:{number}"
    free = row.max_parallel - _active(connection, stored, cause)
    if free <= 0 or not stored.runs_jobs:
        return []
    plan = BackfillPlan(row.from_time, row.to_time, row.direction, row.max_parallel)
    coming = intervals(stored.spec.times, plan, beyond=_reached(connection, row, cause))
    results = [_run(fires, cause, each) for each in itertools.islice(coming, min(free, _MOST_STARTS))]
    if not results and free == row.max_parallel:
        _end(connection, number, "DONE", now)
    return [(stored.job_id, result) for result in results if result is not None]


def _run(fires: JobFires, cause: str, interval: Interval) -> FireResult | None:
    slot = next(slot for slot in itertools.count(FIRST_SLOT) if slot not in fires.open_runs)
    return fires.fire_in(Firing(interval.end, cause, (interval.start, interval.end)), slot)


def _active(connection: Connection, stored: StoredSchedule, cause: str) -> int:
    mine = (execution.c.job_id == stored.job_id, execution.c.status.in_(OPEN), execution.c.slot_no >= FIRST_SLOT)
    counted = select(func.count()).select_from(execution).where(*mine, execution.c.trigger_id.startswith(f"{cause}@"))
    return connection.execute(counted).scalar_one()


def _reached(connection: Connection, row: Row[Any], cause: str) -> dt.datetime | None:
    """The end of the last interval that was decided."""
    edge = func.max if row.direction == "oldest" else func.min
    mine = (schedule_fire.c.job_id == row.job_id, schedule_fire.c.cause == cause)
    return connection.execute(select(edge(schedule_fire.c.fire_time)).where(*mine)).scalar()


def _end(connection: Connection, number: int, status: str, now: dt.datetime) -> bool:
    mine = (backfill.c.id == number, backfill.c.status == "RUNNING")
    ended = update(backfill).where(*mine).values(status=status, end_time=now).returning(backfill.c.id)
    return connection.execute(ended).scalar() is not None


def _times(stored: StoredSchedule) -> CronTimes:
    if stored.spec.times is None:
        msg = "backfill: the schedule of the job knows no intervals"
        hint = "start single runs with interval_start and interval_end instead"
        raise InvalidStep(msg, code="CTL-209", found=stored.spec.type, known="schedules of type cron", hint=hint)
    return stored.spec.times
