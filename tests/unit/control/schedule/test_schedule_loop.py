"""The loop over the tables, on SQLite and PostgreSQL: one row for each fire, one run for each row."""

import datetime as dt

import pytest
from schedule_world import HOUR, MINUTE, NOON, SECOND, World
from sqlalchemy import select, update

from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.schedules import schedule
from millstream.control.refusals import StaleVersion, UnknownName
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import (
    delete_schedule,
    fire_now,
    get_schedule,
    past_fires,
    pause_schedule,
    resume_schedule,
    set_schedule,
    shown_schedule,
)
from millstream.errors import ExternalFailure, InvalidStep


@pytest.fixture
def world(metadata):
    return World(metadata)


def ends(world, now):
    for run in world.runs():
        if run["end_time"] is None:
            world.end(run["execution_id"], now)


def test_a_fire_is_a_row_and_a_run_with_its_interval(world):
    job = world.job()
    world.cron(job, "0 * * * *", params={"region": "eu"})
    assert world.tick(NOON + HOUR - SECOND) == []
    assert world.tick(NOON + HOUR) == [(NOON + HOUR, "cron", "FIRED")]
    assert world.tick(NOON + HOUR + SECOND) == []
    ((fire,), (run,)) = world.fires(), world.runs()
    assert fire["execution_id"] == run["execution_id"]
    assert (fire["decided_at"], fire["revision"], fire["time_zone"]) == (NOON + HOUR, 1, "UTC")
    assert run["trigger_id"] == f"cron@{(NOON + HOUR).isoformat()}"
    assert run["options"] == {
        "params": {"region": "eu"},
        "interval": [NOON.isoformat(), (NOON + HOUR).isoformat()],
    }


def test_an_edit_counts_from_now_and_never_fires_at_once(world):
    job = world.job()
    world.cron(job, "0 * * * *")
    later = NOON + 5 * HOUR
    saved = world.cron(job, "0 12-17 * * *", now=later)
    assert saved.revision == 2
    assert world.tick(later) == []
    assert world.tick(later + SECOND) == []
    assert saved.next_time == NOON + 24 * HOUR


def test_what_was_missed_gets_rows(world):
    job = world.job()
    world.cron(job, "0 * * * *", misfire="one", grace="2h")
    world.tick(NOON + 4 * HOUR + 10 * MINUTE)
    assert world.results() == [(NOON + n * HOUR, "FIRED" if n == 4 else "SKIPPED") for n in (1, 2, 3, 4)]
    assert [row["reason"] is None for row in world.fires()] == [False, False, False, True]


def test_all_that_was_missed_runs_where_slots_allow_it(world):
    job = world.job()
    world.cron(job, "0 * * * *", misfire="all", grace="1d", concurrency="allow(3)")
    world.tick(NOON + 4 * HOUR + 10 * MINUTE)
    assert [result for _, result in world.results()] == ["FIRED"] * 3 + ["SKIPPED"]
    assert [run["slot_no"] for run in world.runs()] == [0, 1, 2]


def test_the_clock_goes_back_and_nothing_fires_twice(world):
    job = world.job()
    world.cron(job, "*/10 * * * *", concurrency="allow(9)")
    world.tick(NOON + 10 * MINUTE)
    with world.metadata.begin() as connection:  # even where the cache is wrong
        connection.execute(update(schedule).values(next_trigger_time=NOON))
    assert world.tick(NOON + 5 * MINUTE) == []
    assert world.tick(NOON + 10 * MINUTE) == []
    assert world.tick(NOON + 20 * MINUTE) == [(NOON + 20 * MINUTE, "cron", "FIRED")]


def test_an_edit_after_the_clock_went_back_does_not_bring_fires_again(world):
    job = world.job()
    world.cron(job, "*/10 * * * *", concurrency="allow(9)")
    world.tick(NOON + 10 * MINUTE)
    world.cron(job, "*/5 * * * *", now=NOON + 2 * MINUTE, concurrency="allow(9)")
    assert world.tick(NOON + 10 * MINUTE) == []
    assert world.tick(NOON + 15 * MINUTE) == [(NOON + 15 * MINUTE, "cron", "FIRED")]


def test_a_cache_that_is_lost_is_made_good_by_the_row_of_the_fire(world):
    job = world.job()
    world.cron(job, "*/10 * * * *", concurrency="allow(9)")
    world.tick(NOON + 10 * MINUTE)
    with world.metadata.begin() as connection:
        connection.execute(update(schedule).values(next_trigger_time=NOON, event_cursor={}))
    assert world.tick(NOON + 10 * MINUTE + SECOND) == []
    assert len(world.runs()) == 1


def test_skip(world):
    job = world.job()
    world.cron(job, "* * * * *")
    world.tick(NOON + MINUTE)
    world.tick(NOON + 2 * MINUTE)
    assert [result for _, result in world.results()] == ["FIRED", "SKIPPED"]
    assert "active" in world.fires()[-1]["reason"]
    ends(world, NOON + 2 * MINUTE)
    world.tick(NOON + 3 * MINUTE)
    assert world.results()[-1][1] == "FIRED"


def test_queue(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="queue(2)")
    for minute in (1, 2, 3, 4):
        world.tick(NOON + minute * MINUTE)
    assert [result for _, result in world.results()] == ["FIRED", "QUEUED", "QUEUED", "SKIPPED"]
    ends(world, NOON + 4 * MINUTE)
    assert world.tick(NOON + 4 * MINUTE + SECOND) == [(NOON + 2 * MINUTE, "cron", "FIRED")]
    assert world.tick(NOON + 4 * MINUTE + 2 * SECOND) == []
    assert [result for _, result in world.results()] == ["FIRED", "FIRED", "QUEUED", "SKIPPED"]
    interval = world.runs()[-1]["options"]["interval"]
    assert interval == [(NOON + MINUTE).isoformat(), (NOON + 2 * MINUTE).isoformat()]


def test_a_place_in_the_queue_is_free_again_when_its_fire_starts(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="queue(1)")
    world.tick(NOON + MINUTE)
    world.tick(NOON + 2 * MINUTE)
    ends(world, NOON + 2 * MINUTE)
    assert world.tick(NOON + 3 * MINUTE) == [
        (NOON + 2 * MINUTE, "cron", "FIRED"),
        (NOON + 3 * MINUTE, "cron", "QUEUED"),
    ]


def test_a_schedule_that_cannot_be_read_is_told_of_and_stops_no_other(world):
    jobs = [world.job(name) for name in "abc"]
    world.cron(jobs[0], "* * * * *")
    world.save(jobs[1], type="event", event={"finished": "a"})
    world.save(jobs[2], type="event", event={"finished": "a"})
    with world.metadata.begin() as connection:
        broken = update(schedule).where(schedule.c.job_id == jobs[1])
        connection.execute(broken.values(spec={"type": "of another version"}, next_trigger_time=NOON))
    first = tick(world.metadata, NOON + MINUTE, world.acts)
    ends(world, NOON + MINUTE)
    second = tick(world.metadata, NOON + MINUTE + SECOND, world.acts)
    assert {problem.code for report in (first, second) for _, problem in report.failures} == {"CTL-204"}
    assert [fire["job_id"] for fire in world.fires()] == [jobs[0], jobs[2]]


def test_what_was_decided_is_read_page_by_page(world):
    job = world.job()
    world.cron(job, "* * * * *")
    for minute in range(1, 6):
        world.tick(NOON + minute * MINUTE)
    with world.metadata.begin() as connection:
        for key in "xy":
            fire_now(connection, job, key=key, now=NOON + 3 * MINUTE, acts=world.acts)
        found, beyond = [], None
        while page := past_fires(connection, job, beyond=beyond, limit=2):
            found += [(row["fire_time"], row["cause"]) for row in page]
            beyond = found[-1]
    assert found == sorted(found, reverse=True)
    assert len(found) == len(set(found)) == 7


def test_two_that_save_a_schedule_are_told_apart(world):
    job = world.job()
    world.cron(job, "* * * * *")
    with world.metadata.begin() as connection, pytest.raises(StaleVersion, match="CTL-217"):
        set_schedule(connection, job, {"type": "manual"}, now=NOON, seen=0)
    with world.metadata.begin() as connection:
        assert set_schedule(connection, job, {"type": "manual"}, now=NOON, seen=1).revision == 2


def test_what_is_not_there_is_named(world):
    job = world.job()
    with world.metadata.begin() as connection:
        for act in (get_schedule, pause_schedule, delete_schedule):
            with pytest.raises(UnknownName, match="CTL-218"):
                act(connection, job)
        with pytest.raises(UnknownName, match="CTL-010"):
            set_schedule(connection, job + 1, {"type": "manual"}, now=NOON)


def test_a_schedule_is_shown_with_its_next_fires(world):
    stored = world.cron(world.job(), "0 0 * * *", time_zone="Europe/Berlin")
    shown = shown_schedule(stored, NOON)
    assert shown["schedule"] == {"type": "cron", "cron": "0 0 * * *", "time_zone": "Europe/Berlin"}
    assert [at.isoformat() for at in shown["next"]][:2] == ["2026-03-01T23:00:00+00:00", "2026-03-02T23:00:00+00:00"]
    assert shown["next_trigger_time"] == shown["next"][0]


def test_cancel_running(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="cancel_running")
    world.tick(NOON + MINUTE)
    first = world.runs()[0]["execution_id"]
    world.tick(NOON + 2 * MINUTE)
    world.tick(NOON + 3 * MINUTE)
    assert world.cancelled == [first, first]
    assert [result for _, result in world.results()] == ["FIRED", "SKIPPED", "QUEUED"]
    assert "replaced" in world.fires()[1]["reason"]
    world.end(first, NOON + 3 * MINUTE, Status.CANCELLED)
    assert world.tick(NOON + 3 * MINUTE + SECOND) == [(NOON + 3 * MINUTE, "cron", "FIRED")]


def test_pause_and_resume_go_on_from_now(world):
    job = world.job()
    world.cron(job, "0 * * * *")
    with world.metadata.begin() as connection:
        assert not pause_schedule(connection, job).enabled
    assert world.tick(NOON + 3 * HOUR) == []
    world.cron(job, "0 * * * *", now=NOON + 3 * HOUR, misfire="all")
    assert world.tick(NOON + 4 * HOUR) == [], "an edit leaves it paused"
    with world.metadata.begin() as connection:
        resumed = resume_schedule(connection, job, now=NOON + 5 * HOUR)
    assert (resumed.enabled, resumed.next_time) == (True, NOON + 6 * HOUR)
    assert world.tick(NOON + 5 * HOUR + SECOND) == []
    assert world.tick(NOON + 6 * HOUR) == [(NOON + 6 * HOUR, "cron", "FIRED")]


def test_fire_now_is_one_run_for_a_key(world):
    job = world.job()
    world.cron(job, "0 * * * *", params={"a": 1})

    def fire(key, now=NOON + 90 * MINUTE):
        with world.metadata.begin() as connection:
            return fire_now(connection, job, key=key, now=now, acts=world.acts)

    first, again = fire("k1"), fire("k1", NOON + 95 * MINUTE)
    assert (first.result, again.result) == ("FIRED", "FIRED")
    assert first.execution_id == again.execution_id
    assert fire("k2").result == "SKIPPED"
    assert len(world.runs()) == 1
    assert world.runs()[0]["trigger_id"] == "manual:k1"
    assert world.runs()[0]["options"]["interval"] == [NOON.isoformat(), (NOON + HOUR).isoformat()]
    with pytest.raises(InvalidStep, match="CTL-210"):
        fire("no spaces")


def test_a_fire_by_hand_that_waits_is_not_doubled(world):
    job = world.job()
    world.save(job, type="manual", concurrency="queue(5)")

    def fire(key, second):
        with world.metadata.begin() as connection:
            return fire_now(connection, job, key=key, now=NOON + second * SECOND, acts=world.acts).result

    assert [fire("a", 1), fire("b", 2), fire("b", 3), fire("c", 4)] == ["FIRED", "QUEUED", "QUEUED", "QUEUED"]
    assert len(world.fires()) == 3
    ends(world, NOON + MINUTE)
    world.tick(NOON + MINUTE)
    assert [run["trigger_id"] for run in world.runs()] == ["manual:a", "manual:b"]


def test_deleting_leaves_the_past_and_skips_what_waits(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="queue(5)")
    world.tick(NOON + MINUTE)
    world.tick(NOON + 2 * MINUTE)
    with world.metadata.begin() as connection:
        delete_schedule(connection, job)
        assert connection.execute(select(schedule.c.id)).all() == []
    assert [result for _, result in world.results()] == ["FIRED", "SKIPPED"]


@pytest.mark.parametrize("change", [{"enabled": False}, {"deleted_time": NOON}])
def test_a_job_that_may_not_run_does_not(world, change):
    job = world.job()
    world.cron(job, "* * * * *")
    with world.metadata.begin() as connection:
        connection.execute(update(job_definition).values(**change))
    world.tick(NOON + MINUTE)
    assert world.runs() == []
    assert [row["reason"] for row in world.fires()] == (["the job is disabled"] if "enabled" in change else [])


def test_what_waits_for_a_disabled_job_goes_on_waiting(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="queue(5)")
    world.tick(NOON + MINUTE)
    world.tick(NOON + 2 * MINUTE)
    for is_on in (False, True):
        with world.metadata.begin() as connection:
            connection.execute(update(job_definition).values(enabled=is_on))
        ends(world, NOON + 2 * MINUTE)
        assert bool(world.tick(NOON + 2 * MINUTE + SECOND)) == is_on


def test_a_run_that_is_refused_is_a_fire_that_is_skipped(world):
    job = world.job()
    world.cron(job, "* * * * *")

    def refuse(connection, job_id, **_):
        world_start(connection, job_id, **_)
        msg = "the parameter does not fit"
        raise InvalidStep(msg, code="CTL-030")

    world_start = world.start_run
    world.acts = type(world.acts)(refuse, world.cancel_run)
    world.tick(NOON + MINUTE)
    ((fire,), runs) = world.fires(), world.runs()
    assert (fire["result"], runs) == ("SKIPPED", [])
    assert "CTL-030" in fire["reason"]


def test_one_schedule_that_fails_does_not_stop_others(world):
    jobs = [world.job(name) for name in "abc"]
    for job in jobs:
        world.cron(job, "* * * * *")
    world_start = world.start_run

    def start(connection, job_id, **more):
        if job_id == jobs[1]:
            raise RuntimeError("a mistake of ours")
        return world_start(connection, job_id, **more)

    world.acts = type(world.acts)(start, world.cancel_run)
    report = tick(world.metadata, NOON + MINUTE, world.acts)
    assert [(str(problem)) for _, problem in report.failures] == ["a mistake of ours"]
    assert [row["job_id"] for row in world.fires()] == [jobs[0], jobs[2]]
    world.acts = type(world.acts)(world_start, world.cancel_run)
    assert world.tick(NOON + MINUTE + SECOND) == [(NOON + MINUTE, "cron", "FIRED")]


@pytest.mark.parametrize("where", ["before the run", "behind the run"])
def test_a_crash_between_fire_and_commit_leaves_nothing(world, where):
    job = world.job()
    world.cron(job, "* * * * *")
    world_start = world.start_run

    def crash(connection, job_id, **more):
        if where == "behind the run":
            world_start(connection, job_id, **more)
        raise ExternalFailure("the database went away", code="CTL-002")

    world.acts = type(world.acts)(crash, world.cancel_run)
    with pytest.raises(ExternalFailure):
        world.tick(NOON + MINUTE)
    assert (world.fires(), world.runs()) == ([], [])
    world.acts = type(world.acts)(world_start, world.cancel_run)
    assert world.tick(NOON + MINUTE + SECOND) == [(NOON + MINUTE, "cron", "FIRED")]
    assert len(world.runs()) == 1


def test_a_slot_that_another_takes_meanwhile_is_waited_for(world):
    job = world.job()
    world.cron(job, "* * * * *", concurrency="queue(1)")
    world_start = world.start_run

    def taken(connection, job_id, **more):
        world_start(connection, job_id, **{**more, "trigger_id": "somebody"})

    world.acts = type(world.acts)(taken, world.cancel_run)
    assert world.tick(NOON + MINUTE) == [(NOON + MINUTE, "cron", "QUEUED")]
    world.acts = type(world.acts)(world_start, world.cancel_run)
    ends(world, NOON + MINUTE)
    assert world.tick(NOON + MINUTE + SECOND) == [(NOON + MINUTE, "cron", "FIRED")]


def test_next_time_is_read_back_with_a_zone(world):
    job = world.job()
    world.cron(job, "30 2 * * *", now=NOON, time_zone="Europe/Berlin")
    with world.metadata.begin() as connection:
        found = get_schedule(connection, job).next_time
    assert found == dt.datetime(2026, 3, 2, 1, 30, tzinfo=dt.UTC)
