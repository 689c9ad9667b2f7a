"""Many schedules, several servers, an hour across a change of the clock: nothing is missed, nothing fires twice."""

import concurrent.futures
import os
import threading
from collections import Counter

import pytest
from cron_oracle import expected_fires
from schedule_world import MINUTE, SECOND, World, job_values, utc
from sqlalchemy import insert, select

from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.schedule.store import set_schedule

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
EXPRESSIONS = ["* * * * *", "*/2 * * * *", "30 * * * *", "30 2 * * *", "*/10 1-3 * * *", "45 1 * * *", "0 2,3 * * *"]
NASTY = [(expression, zone) for expression in EXPRESSIONS for zone in ZONES]
EACH_MINUTE = [("* * * * *", ZONES[n % 3]) for n in range(200)]
SERVERS = 3
# Half an hour before a change, in UTC.
CHANGES = {
    "Berlin": "2026-10-25T00:30",
    "Berlin forward": "2026-03-29T00:30",
    "New York": "2026-03-08T06:30",
    "Lord Howe": "2026-04-04T14:30",
}


def fill(world, kinds, start):
    """A job with a schedule for each expression in a zone, by its id."""
    with world.metadata.begin() as connection:
        values = [job_values(f"job-{n}") for n in range(len(kinds))]
        connection.execute(insert(job_definition), values)
        ids = connection.execute(select(job_definition.c.id).order_by(job_definition.c.id)).scalars().all()
        for job_id, (expression, zone) in zip(ids, kinds):
            document = {"type": "cron", "cron": expression, "time_zone": zone, "concurrency": "allow(100)"}
            set_schedule(connection, job_id, document, now=start)
    return {job_id: kind for job_id, kind in zip(ids, kinds)}


def tick_together(servers, now):
    """All servers at once, each of them a second behind the one before."""
    barrier = threading.Barrier(len(servers))

    def one(number):
        barrier.wait()
        return servers[number].tick(now + number * SECOND)

    with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
        return [each for results in pool.map(one, range(len(servers))) for each in results]


def compare(world, kinds, start, end):
    expected = {
        (job_id, fire)
        for kind in set(kinds.values())
        for fire in expected_fires(*kind, start, end)
        for job_id, other in kinds.items()
        if other == kind
    }
    fires = Counter((row["job_id"], row["fire_time"]) for row in world.fires() if row["result"] == "FIRED")
    assert set(fires) == expected
    assert set(fires.values()) == {1}
    runs = Counter((run["job_id"], run["start_time"]) for run in world.runs())
    assert runs == fires
    return len(expected)


def hour(database_url, metadata, start, kinds, minutes=60):
    others = [Metadata(database_url) for _ in range(SERVERS - 1)]
    servers = [World(each, status=Status.COMPLETED) for each in (metadata, *others)]
    try:
        jobs = fill(servers[0], kinds, start)
        told = [each for n in range(1, minutes + 1) for each in tick_together(servers, start + n * MINUTE)]
        made = compare(servers[0], jobs, start, start + minutes * MINUTE + (SERVERS - 1) * SECOND)
        assert len(told) == made, "every fire was won by one server"
        return made
    finally:
        for each in others:
            each.close()


@pytest.mark.parametrize("change", CHANGES)
def test_an_hour_across_a_change_with_three_servers(database_url, metadata, change):
    assert hour(database_url, metadata, utc(CHANGES[change]) - 17 * SECOND, NASTY) > 250


WHOLE = "MILLSTREAM_SCHEDULE_HOURS" in os.environ
"""Every change with 200 schedules that fire each minute, for the night; one of them runs always."""


@pytest.mark.parametrize("change", CHANGES if WHOLE else ["Berlin"])
def test_two_hundred_fires_each_minute(database_url, metadata, change):
    if metadata.is_sqlite or WHOLE:
        assert hour(database_url, metadata, utc(CHANGES[change]) - 17 * SECOND, EACH_MINUTE + NASTY) > 12_000
