"""Fires that wait for a slot: they start in the order of their times, when a run before them has ended."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from millstream.control.metadata.tables.schedules import schedule, schedule_fire
from millstream.control.schedule.firing import FireResult, Firing, JobFires
from millstream.control.schedule.upstream import interval_of

_MOST_QUEUES = 1000


def schedules_with_queue(connection: Connection) -> set[int]:
    """Schedules of which a fire waits."""
    jobs = select(schedule_fire.c.job_id).where(schedule_fire.c.result == "QUEUED").distinct().limit(_MOST_QUEUES)
    found = select(schedule.c.id).where(schedule.c.enabled, schedule.c.job_id.in_(jobs.scalar_subquery()))
    return set(connection.execute(found).scalars())


def start_waiting(fires: JobFires) -> list[FireResult]:
    """Start what waits, as far as slots are free."""
    stored, results = fires.stored, []
    mine = (schedule_fire.c.result == "QUEUED", schedule_fire.c.job_id == stored.job_id)
    waiting = select(schedule_fire.c.fire_time, schedule_fire.c.cause).where(*mine)
    for row in list(fires.connection.execute(waiting.order_by(schedule_fire.c.fire_time, schedule_fire.c.cause))):
        free = next((slot for slot in stored.spec.limit.slots if slot not in fires.open_runs), None)
        if free is None:
            break
        this = (*mine, schedule_fire.c.fire_time == row.fire_time, schedule_fire.c.cause == row.cause)
        taken = update(schedule_fire).where(*this).values(result="FIRED").returning(schedule_fire.c.cause)
        if fires.connection.execute(taken).scalar() is not None:
            trigger = Firing(row.fire_time, row.cause).trigger_id
            value = stored.state.get("values", {}).get(trigger)
            firing = Firing(row.fire_time, row.cause, interval_of(fires.connection, stored.spec, row.fire_time), value)
            fires.waiting -= 1
            results.append(fires.start(firing, free))
    return results
