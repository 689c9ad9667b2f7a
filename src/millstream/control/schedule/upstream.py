"""Ends of other jobs' runs, as the tables tell them: who waits for them, and the fires that they make."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Row, select

from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.metadata.tables.schedules import schedule
from millstream.control.schedule.dependency import ENDS, EndedRun, UpstreamProgress, follow
from millstream.control.schedule.firing import Firing, JobFires, Span
from millstream.control.schedule.rows import StoredSchedule, read, reading
from millstream.control.schedule.spec import ScheduleSpec, schedule_spec
from millstream.errors import MillstreamError

SETTLED = dt.timedelta(seconds=60)
"""Events get their numbers before they are committed: those of the last minute are read again, in case one came late."""
_JUST = dt.timedelta(seconds=3)
_MOST_EVENTS = 1000
_DEEPEST = 20
_OF_A_FIRE = re.compile(r"(?:cron|(?:dep|event):[^@]+)@(.+)")
"""Keys of runs that came from a fire with a time. Backfills are not among them: nobody waits for those."""


def woken(connection: Connection, now: dt.datetime) -> set[int]:
    """Schedules that wait for a job of which a run ended just now: a hint, so that they need not wait for their next look."""
    ended = (
        select(execution.c.job_name)
        .join(run_event, run_event.c.execution_id == execution.c.execution_id)
        .where(run_event.c.time > now - _JUST, run_event.c.to_status.in_(ENDS))
    )
    names = set(connection.execute(ended.distinct()).scalars())
    return waiting_for(connection, names) if names else set()


def waiting_for(connection: Connection, names: Collection[str]) -> set[int]:
    """Enabled schedules that wait for one of these jobs."""
    kinds = schedule.c.schedule_type.in_(["DEPENDENCY", "EVENT"])
    rows = connection.execute(select(schedule.c.id, schedule.c.spec).where(schedule.c.enabled, kinds))
    return {row.id for row in rows if _waits_for(row.spec) & set(names)}


def _waits_for(document: Any) -> set[str]:
    """Nothing for a schedule that cannot be read: it is told of where it is decided, and does not keep others from it."""
    try:
        return set(schedule_spec(document).waits_for)
    except MillstreamError:
        return set()


def newest_event(connection: Connection) -> int:
    """The number of the last event there is."""
    return connection.execute(select(run_event.c.id).order_by(run_event.c.id.desc()).limit(1)).scalar() or 0


def follow_ends(fires: JobFires) -> tuple[list[Firing], bool]:
    """Fires that the ends of runs since the last look make; and whether there are more ends to look at."""
    stored = fires.stored
    rows = _ended(fires.connection, stored)
    progress = UpstreamProgress(**stored.state.get("progress", {}))
    made = [each for row in rows for each in _fires_of(fires.connection, stored, progress, row)]
    stored.state["progress"] = dataclasses.asdict(progress)
    is_more = len(rows) == _MOST_EVENTS
    settled = _settled(fires.connection, fires.now - SETTLED)
    stored.state["event"] = max(stored.state.get("event", 0), min(settled, rows[-1].id) if is_more else settled)
    return made, is_more


def _ended(connection: Connection, stored: StoredSchedule) -> list[Row[Any]]:
    columns = (run_event.c.id, run_event.c.time, run_event.c.to_status)
    found = (
        select(*columns, execution.c.execution_id, execution.c.job_name, execution.c.trigger_id)
        .join(execution, execution.c.execution_id == run_event.c.execution_id)
        .where(run_event.c.id > stored.state.get("event", 0), run_event.c.to_status.in_(ENDS))
        .where(execution.c.job_name.in_(list(stored.spec.waits_for)), run_event.c.time > stored.revised_at)
    )
    return list(connection.execute(found.order_by(run_event.c.id).limit(_MOST_EVENTS)))


def _fires_of(
    connection: Connection, stored: StoredSchedule, progress: UpstreamProgress, row: Row[Any]
) -> Iterable[Firing]:
    spec = stored.spec
    run = EndedRun(row.job_name, row.execution_id, Status(row.to_status), row.time, _fire_time(row.trigger_id))
    if spec.event is not None:
        if run.fits(spec.event.when):
            yield Firing(run.ended, f"event:{run.execution_id}", value=run.execution_id)
        return
    made = follow(spec, progress, run)
    if made is not None:
        interval = interval_of(connection, spec, made.fire_time)
        yield Firing(made.fire_time, made.cause, interval, skipped=made.skipped)


def _fire_time(trigger_id: str) -> dt.datetime | None:
    match = _OF_A_FIRE.fullmatch(trigger_id)
    try:
        found = dt.datetime.fromisoformat(match[1]) if match is not None else None
    except ValueError:
        return None
    return found.astimezone(dt.UTC) if found is not None and found.tzinfo is not None else None


def _settled(connection: Connection, until: dt.datetime) -> int:
    older = select(run_event.c.id).where(run_event.c.time <= until)
    return connection.execute(older.order_by(run_event.c.time.desc(), run_event.c.id.desc()).limit(1)).scalar() or 0


def interval_of(connection: Connection, spec: ScheduleSpec, fire_time: dt.datetime) -> Span | None:
    """The stretch of time that a fire works for: that of the clock's fire, also where other jobs came between."""
    for _ in range(_DEEPEST):
        if spec.times is not None:
            fire = spec.times.before(fire_time + dt.timedelta(microseconds=1))
            return None if fire is None else spec.times.interval(fire)
        if not spec.upstream or spec.match != "fire_time":
            return None
        above = _schedule_of(connection, spec.upstream[0].job)
        if above is None:
            return None
        spec = above.spec
    return None


def _schedule_of(connection: Connection, job: str) -> StoredSchedule | None:
    row = connection.execute(reading().where(_job_name() == job)).one_or_none()
    return None if row is None else read(row)


def _job_name() -> Any:
    return reading().selected_columns.job_name
