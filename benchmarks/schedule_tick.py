"""How long one turn of the schedule's loop takes: 2,000 definitions, 200 schedules that all fire each minute, 100,000 events.

    python benchmarks/schedule_tick.py [--database postgresql://...] [--minutes 60]

Prints milliseconds of turns in which nothing is due, and of turns in which 200 fires become runs through the dispatcher.
"""

import argparse
import datetime as dt
import statistics
import tempfile
import time
import uuid

from sqlalchemy import insert, select, update

from millstream.control.lifecycle.states import Status
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.jobs import job_definition, job_version
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.schedule.dispatching import dispatcher_acts
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import set_schedule

JOBS, SCHEDULES, EVENTS = 2_000, 200, 100_000
START = dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC)
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


def fill(metadata):
    times = {"create_time": START, "update_time": START}
    base = {"job_type": "SQL_TASK", "version": 1, "dag_definition": {}, "fingerprint": "f", "settings": {}}
    with metadata.begin() as connection:
        connection.execute(insert(job_definition), [{"job_name": f"job-{n}", **base, **times} for n in range(JOBS)])
        ids = connection.execute(select(job_definition.c.id).order_by(job_definition.c.id)).scalars().all()
        version = {"version": 1, "dag_definition": {}, "settings": {}, "fingerprint": "f", "created_by": "b"}
        connection.execute(insert(job_version), [{"job_id": job, "create_time": START, **version} for job in ids])
        for number, job in enumerate(ids[:SCHEDULES]):
            document = {"type": "cron", "cron": "* * * * *", "time_zone": ZONES[number % 3]}
            set_schedule(connection, job, document, now=START)
        add_events(connection, ids[-1])


def add_events(connection, job):
    run, day = uuid.uuid4().hex, START - dt.timedelta(days=1)
    values = {"execution_id": run, "job_id": job, "job_name": "job-1999", "status": Status.COMPLETED, "job_version": 1}
    more = {"start_time": day, "not_before": day, "trigger_id": "before", "options": {}, "failures": []}
    connection.execute(insert(execution).values(**values, **more))
    event = {"execution_id": run, "time": day, "kind": "moved", "cause": "-", "actor": "-", "token": 0}
    for first in range(0, EVENTS, 10_000):
        connection.execute(insert(run_event), [{**event, "seq": n} for n in range(first, first + 10_000)])


def timed(metadata, now):
    began = time.perf_counter()
    report = tick(metadata, now, dispatcher_acts(now))
    assert report.failures == []
    return (time.perf_counter() - began) * 1000, len(report.decided)


def end_runs(metadata):
    with metadata.begin() as connection:
        connection.execute(update(execution).where(execution.c.status == "SCHEDULED").values(status="COMPLETED"))


def told(turns):
    ordered = sorted(turns)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return (
        f"median {statistics.median(turns):.1f} ms, p99 {p99:.1f} ms, longest {ordered[-1]:.1f} ms, {len(turns)} turns"
    )


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--database")
    given.add_argument("--minutes", type=int, default=10)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metadata = Metadata(asked.database or f"sqlite:///{folder}/metadata.db")
        migrate.upgrade(metadata)
        fill(metadata)
        idle, firing, fires = [], [], 0
        for minute in range(1, asked.minutes + 1):
            now = START + dt.timedelta(minutes=minute)
            idle += [timed(metadata, now - dt.timedelta(seconds=second))[0] for second in range(20, 0, -1)]
            took, decided = timed(metadata, now)
            firing.append(took)
            fires += decided
            end_runs(metadata)
        metadata.close()
    assert fires == SCHEDULES * asked.minutes
    print(f"nothing due: {told(idle)}")
    print(f"{SCHEDULES} fires: {told(firing)}")


if __name__ == "__main__":
    main()
