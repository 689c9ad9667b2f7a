"""Fires through the dispatcher: the run has its parameters and its interval, and ends when a newer one asks for it."""

import pytest
from schedule_world import HOUR, MINUTE, NOON, SECOND
from sqlalchemy import select, update
from tests.unit.control.conftest import submission

from millstream.control.dispatcher.definitions import job_of, submit
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.schedule.dispatching import dispatcher_acts
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import set_schedule


@pytest.fixture
def scheduled(act):
    def make(**document):
        with act() as a:
            submit(a, submission("orders", "SQL_TASK"))
            return set_schedule(a.connection, job_of(a, "orders").id, {"type": "cron", **document}, now=NOON).job_id

    return make


def turn(metadata, now):
    report = tick(metadata, now, dispatcher_acts(now))
    assert report.failures == []
    return [(result.fire_time, result.result) for _, result in report.decided]


def runs(metadata):
    with metadata.begin() as connection:
        return list(connection.execute(select(execution).order_by(execution.c.id)))


def test_a_fire_is_a_run_of_the_dispatcher(metadata, scheduled):
    scheduled(cron="0 * * * *", params={"region": "eu"})
    assert turn(metadata, NOON + HOUR) == [(NOON + HOUR, "FIRED")]
    (run,) = runs(metadata)
    assert (run.status, run.trigger_id) == (Status.SCHEDULED, f"cron@{(NOON + HOUR).isoformat()}")
    assert run.options == {
        "params": {"region": "eu"},
        "fire_time": (NOON + HOUR).isoformat(),
        "interval_start": NOON.isoformat(),
        "interval_end": (NOON + HOUR).isoformat(),
    }
    with metadata.begin() as connection:
        assert connection.execute(select(run_event.c.actor)).scalars().all() == ["schedule"]


def test_a_run_that_has_not_begun_is_cancelled_for_a_newer_one(metadata, scheduled):
    scheduled(cron="* * * * *", concurrency="cancel_running")
    turn(metadata, NOON + MINUTE)
    assert turn(metadata, NOON + 2 * MINUTE) == [(NOON + 2 * MINUTE, "QUEUED")]
    assert [run.status for run in runs(metadata)] == [Status.CANCELLED]
    assert turn(metadata, NOON + 2 * MINUTE + SECOND) == [(NOON + 2 * MINUTE, "FIRED")]


def test_a_run_that_is_under_way_is_asked_to_end(metadata, scheduled):
    scheduled(cron="* * * * *", concurrency="cancel_running")
    turn(metadata, NOON + MINUTE)
    with metadata.begin() as connection:
        connection.execute(update(execution).values(status=Status.RUNNING, token=1))
    turn(metadata, NOON + 2 * MINUTE)
    assert [(run.status, run.wanted) for run in runs(metadata)] == [(Status.CANCELLING, "cancel")]
    assert turn(metadata, NOON + 3 * MINUTE) == [(NOON + 3 * MINUTE, "QUEUED")]
    with metadata.begin() as connection:
        connection.execute(update(execution).values(status=Status.CANCELLED))
    assert turn(metadata, NOON + 3 * MINUTE + SECOND) == [(NOON + 3 * MINUTE, "FIRED")]


def test_a_run_by_hand_holds_the_slot(metadata, scheduled, act):
    scheduled(cron="* * * * *")
    with act() as a:
        start(a, "orders", StartOptions())
    assert turn(metadata, NOON + MINUTE) == [(NOON + MINUTE, "SKIPPED")]
