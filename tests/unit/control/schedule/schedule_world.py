"""Jobs, schedules and runs in a database, with less around them than the service has."""

import datetime as dt
import uuid

from sqlalchemy import insert, select, update

from millstream.control.lifecycle.moves import Cause, record
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.schedule.firing import RunActs
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import set_schedule

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
SECOND, MINUTE, HOUR = dt.timedelta(seconds=1), dt.timedelta(minutes=1), dt.timedelta(hours=1)


def utc(text):
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def job_values(name, now=NOON):
    return {
        "job_name": name,
        "job_type": "SQL_TASK",
        "version": 1,
        "dag_definition": {},
        "create_time": now,
        "update_time": now,
        "fingerprint": "f",
        "settings": {},
    }


class World:
    """One database, seen by one server."""

    def __init__(self, metadata, *, status=Status.SCHEDULED):
        self.metadata = metadata
        self.status = status
        self.cancelled = []
        self.acts = RunActs(self.start_run, self.cancel_run)

    def job(self, name="orders"):
        with self.metadata.begin() as connection:
            added = insert(job_definition).values(**job_values(name)).returning(job_definition.c.id)
            return connection.execute(added).scalar_one()

    def start_run(self, connection, job_id, *, trigger_id, fire_time, interval, params, slot_no):
        run = uuid.uuid4().hex
        start = {"params": dict(params), "interval": [each.isoformat() for each in interval] if interval else None}
        values = {
            "execution_id": run,
            "job_id": job_id,
            "job_name": select(job_definition.c.job_name).where(job_definition.c.id == job_id).scalar_subquery(),
            "status": self.status,
            "start_time": fire_time,
            "not_before": fire_time,
            "job_version": 1,
            "trigger_id": trigger_id,
            "slot_no": slot_no,
            "options": start,
            "failures": [],
        }
        connection.execute(insert(execution).values(**values))
        return run

    def cancel_run(self, connection, execution_id, *, cause):
        self.cancelled.append(execution_id)

    def save(self, job_id, now=NOON, *, roots=(), **document):
        with self.metadata.begin() as connection:
            return set_schedule(connection, job_id, document, now=now, roots=roots)

    def cron(self, job_id, expression, now=NOON, **more):
        return self.save(job_id, now, type="cron", cron=expression, **more)

    def tick(self, now, **more):
        report = tick(self.metadata, now, self.acts, **more)
        assert report.failures == []
        return [(result.fire_time, result.cause, result.result) for _, result in report.decided]

    def fires(self, job_id=None):
        with self.metadata.begin() as connection:
            found = select(schedule_fire).order_by(schedule_fire.c.fire_time, schedule_fire.c.cause)
            rows = connection.execute(found if job_id is None else found.where(schedule_fire.c.job_id == job_id))
            return [dict(row._mapping) for row in rows]

    def results(self, job_id=None):
        return [(row["fire_time"], row["result"]) for row in self.fires(job_id)]

    def runs(self, job_id=None):
        with self.metadata.begin() as connection:
            found = select(execution).order_by(execution.c.id)
            rows = connection.execute(found if job_id is None else found.where(execution.c.job_id == job_id))
            return [dict(row._mapping) for row in rows]

    def end(self, run, now, status=Status.COMPLETED):
        """A run ends, with the event that says so."""
        with self.metadata.begin() as connection:
            ended = update(execution).where(execution.c.execution_id == run)
            connection.execute(ended.values(status=status, end_time=now))
            record(connection, run, "moved", Cause("test", "test"), now=now, token=0, after=status)
