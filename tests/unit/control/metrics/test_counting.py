"""Counters of a service: exact while rows come, never falling when they are pruned, the same on every server."""

import datetime as dt
import itertools

import pytest
from sqlalchemy import delete, insert, select, update

from millstream.control.act import acting
from millstream.control.dispatcher.starting import StartOptions, start_run
from millstream.control.lifecycle.moves import Cause, move, record
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.metadata.tables.schedules import schedule, schedule_fire
from millstream.control.metrics.counting import counters
from millstream.control.metrics.fleet import FleetFigures, mean_interval
from millstream.control.metrics.tallies import beginnings, figures_of_tallies, key_of

S = Status
COMPLETED = (S.SCHEDULED, S.INITIALIZING, S.RUNNING, S.COMPLETED)
DIED = (S.SCHEDULED, S.INITIALIZING, S.FAILED, S.SCHEDULED, S.INITIALIZING, S.FAILED, S.DEAD)


@pytest.fixture
def counted(act):
    """The counters now, as plain names."""

    def read(**options):
        with act() as a:
            found = counters(a, **options)
        return {(figure.name, *figure.labels.values()): figure.value for figure in figures_of_tallies(found)}

    return read


@pytest.fixture
def lives(act, clock, job):
    """A run of `orders` that goes through states, a second in each."""

    def live(states, number, code=None):
        with act() as a:
            row = a.connection.execute(select(job_definition)).one()
            run = start_run(a, row, StartOptions(), trigger=f"t{number}").execution_id
        for before, after in itertools.pairwise(states):
            clock.forward(1)
            details = {"code": code} if after == S.FAILED else None
            with act() as a:
                assert move(a.connection, run, before, after, Cause("test", "ada", details), now=a.now)
        return run

    return live


def begun(counted):
    assert counted() == {}, "counting begins when somebody first asks"


def test_runs_restarts_and_reaping_are_counted(counted, lives):
    begun(counted)
    lives(COMPLETED, 1)
    lives(DIED, 2, code="CTL-051")
    lives(COMPLETED, 3)
    found = counted()
    assert found["job_runs_total", "orders", "success"] == 2
    assert found["job_runs_total", "orders", "failed"] == 1
    assert found["job_restarts_total", "orders"] == 1
    assert found["runs_reaped_total", "orders"] == 2
    spread = found["job_run_duration_seconds", "orders"]
    assert (spread.count, spread.sum) == (3, 3 + 6 + 3)


def test_nothing_falls_when_rows_are_pruned_and_nothing_counts_twice(counted, lives, act, clock):
    begun(counted)
    lives(COMPLETED, 1)
    for _ in range(4):
        clock.forward(59)
        assert counted()["job_runs_total", "orders", "success"] == 1
    with act() as a:
        a.connection.execute(delete(run_event))
        a.connection.execute(delete(execution))
    assert counted()["job_runs_total", "orders", "success"] == 1
    lives(COMPLETED, 2)
    assert counted()["job_runs_total", "orders", "success"] == 2
    assert counted()["job_run_duration_seconds", "orders"].count == 2


def test_a_backlog_is_taken_in_pieces(counted, lives, clock):
    begun(counted)
    for number in range(6):
        lives(COMPLETED, number)
    clock.forward(3600)
    seen = [counted(at_once=3).get(("job_runs_total", "orders", "success"), 0) for _ in range(12)]
    assert seen == sorted(seen)
    assert seen[0] < 6
    assert seen[-1] == 6


def test_events_of_one_instant_stay_together(counted, act, lives, clock):
    begun(counted)
    run = lives(COMPLETED[:3], 1)
    with act() as a:
        for _ in range(5):
            record(a.connection, run, "fenced", Cause("test", "node"), now=a.now, token=1)
        record(a.connection, run, "lease_lost", Cause("test", "node"), now=a.now, token=1)
    clock.forward(3600)
    for _ in range(5):
        found = counted(at_once=1)
    assert found["fenced_total", "orders"] == 5
    assert found["leases_lost_total", "orders"] == 1


def test_two_servers_tell_the_same(database_url, metadata, counted, lives, clock):
    begun(counted)
    lives(COMPLETED, 1)
    other = Metadata(database_url, clock=clock)
    try:
        for _ in range(3):
            clock.forward(45)
            with acting(other) as theirs:
                told = counters(theirs)
            assert told[key_of("job_runs_total", job_name="orders", result="success")] == 1
            assert counted()["job_runs_total", "orders", "success"] == 1
    finally:
        other.close()


def test_fires_are_counted_with_their_delay_and_a_change_of_one_takes_nothing_back(act, clock, job):
    fleet = FleetFigures()

    def fires():
        with act() as a:
            told = [each for each in fleet.figures(a) if each.name.startswith("schedule_")]
        return {(each.name, each.labels.get("result")): each.value for each in told}

    with act() as a:
        identifier = a.connection.execute(select(job_definition.c.id)).scalar_one()
        values = {"job_id": identifier, "schedule_type": "CRON", "cron_expression": "* * * * *", "spec": {}}
        a.connection.execute(insert(schedule).values(**values, revised_at=a.now))
    assert fires() == {("schedule_fires_total", each): 0 for each in ("FIRED", "SKIPPED", "QUEUED")}
    fire = {"job_id": identifier, "revision": 1, "time_zone": "UTC", "cause": "cron"}
    clock.forward(2)
    with act() as a:
        late = a.now - dt.timedelta(seconds=4)
        a.connection.execute(insert(schedule_fire).values(**fire, fire_time=late, decided_at=a.now, result="QUEUED"))
    assert fires()["schedule_fires_total", "QUEUED"] == 1
    with act() as a:
        a.connection.execute(update(schedule_fire).values(result="FIRED"))
    found = fires()
    assert found["schedule_fires_total", "QUEUED"] == found["schedule_fires_total", "FIRED"] == 1
    assert found["schedule_delay_seconds", None].sum == 4


def test_every_job_begins_at_zero():
    begins = {(figure.name, *figure.labels.values()) for figure in figures_of_tallies(beginnings(["a"], ["a"]))}
    assert ("job_runs_total", "a", "failed") in begins
    assert ("schedule_fires_total", "a", "SKIPPED") in begins
    assert ("runs_reaped_total", "a") in begins


def test_the_mean_interval_needs_two():
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    assert mean_interval([noon]) is None
    assert mean_interval([noon + dt.timedelta(seconds=9), noon, noon + dt.timedelta(seconds=3)]) == 4.5
