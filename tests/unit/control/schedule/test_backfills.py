"""Runs for intervals of the past."""

import datetime as dt
import itertools

import pytest
from cron_oracle import expected_fires
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_world import HOUR, MINUTE, NOON, SECOND, World, utc

from millstream.control.lifecycle.states import OPEN, Status
from millstream.control.refusals import StateConflict, UnknownName
from millstream.control.schedule.backfill import BackfillPlan, check_plan, intervals, preview
from millstream.control.schedule.backfills import backfill_intervals, backfills, cancel_backfill, create_backfill
from millstream.control.schedule.cron import cron_times
from millstream.control.schedule.firing import RunActs
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import delete_schedule, get_schedule
from millstream.errors import InvalidStep

DAY = 24 * HOUR


def test_intervals_lie_within_what_is_asked_for():
    times = cron_times("0 0 * * *", "UTC")
    plan = BackfillPlan(utc("2026-01-01T06:00"), utc("2026-01-05T06:00"))
    found = [(each.start.day, each.end.day) for each in preview(times, plan)]
    assert found == [(2, 3), (3, 4), (4, 5)]
    assert preview(times, plan._replace(direction="newest")) == preview(times, plan)[::-1]
    exact = BackfillPlan(utc("2026-01-02T00:00"), utc("2026-01-05T00:00"))
    assert preview(times, exact) == preview(times, plan)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "0 */6 * * *", "45 1 * * *"]),
    st.sampled_from([("Europe/Berlin", "2026-10-24T10:00"), ("Australia/Lord_Howe", "2026-04-03T10:00")]),
    st.integers(0, 48 * 60),
    st.integers(1, 72 * 60),
    st.integers(0, 30),
)
def test_intervals_are_pairs_of_fires_and_go_on_where_they_stopped(expression, place, begin, length, stop):
    zone, start = place
    after = utc(start) + begin * MINUTE
    plan = BackfillPlan(after, after + length * MINUTE)
    fires = expected_fires(expression, zone, after - MINUTE, plan.until)
    wanted = list(itertools.pairwise(fires))
    times = cron_times(expression, zone)
    for direction, pairs in (("oldest", wanted), ("newest", wanted[::-1])):
        asked = plan._replace(direction=direction)
        assert list(intervals(times, asked)) == pairs
        if stop < len(pairs):
            assert list(intervals(times, asked, beyond=pairs[stop][1])) == pairs[stop + 1 :]


@pytest.mark.parametrize(
    "plan",
    [
        BackfillPlan(NOON, NOON),
        BackfillPlan(NOON, NOON - HOUR),
        BackfillPlan(NOON - HOUR, NOON + HOUR),
        BackfillPlan(NOON - HOUR, NOON, max_parallel=0),
        BackfillPlan(NOON - HOUR, NOON, max_parallel=101),
        BackfillPlan(NOON - HOUR, NOON, direction="sideways"),
        BackfillPlan(dt.datetime(2026, 1, 1), NOON),
        BackfillPlan(dt.datetime(1, 1, 1, tzinfo=dt.UTC), NOON),
    ],
)
def test_what_cannot_be_filled_is_refused(plan):
    with pytest.raises(InvalidStep, match="CTL-209"):
        check_plan(plan, NOON)


def test_too_many_intervals_and_none_are_refused():
    times = cron_times("* * * * *", "UTC")
    with pytest.raises(InvalidStep, match="more than 10000 intervals"):
        preview(times, BackfillPlan(NOON - 8 * DAY, NOON))
    with pytest.raises(InvalidStep, match="0 intervals"):
        preview(times, BackfillPlan(NOON - 90 * SECOND, NOON - 35 * SECOND))


@pytest.fixture
def world(metadata):
    return World(metadata)


def begin(world, job, plan, key="k"):
    with world.metadata.begin() as connection:
        return create_backfill(connection, get_schedule(connection, job), plan, key=key, actor="ada", now=NOON)


def shown(world, job):
    with world.metadata.begin() as connection:
        return [(each["id"], each["status"]) for each in backfills(connection, job)]


@pytest.mark.parametrize("direction", ["oldest", "newest"])
def test_a_backfill_runs_its_intervals_a_few_at_a_time(world, direction):
    job = world.job()
    world.cron(job, "0 * * * *")
    number = begin(world, job, BackfillPlan(NOON - 5 * HOUR, NOON, direction, 2))
    now, most = NOON, 0
    for _ in range(10):
        now += SECOND
        world.tick(now)
        running = [run for run in world.runs() if run["status"] in OPEN]
        most = max(most, len(running))
        for run in running[:1]:
            world.end(run["execution_id"], now)
    assert (most, shown(world, job)) == (2, [(number, "DONE")])
    ends = [run["options"]["interval"][1] for run in world.runs()]
    wanted = [(NOON - n * HOUR).isoformat() for n in range(5)]
    assert ends == (wanted[::-1] if direction == "oldest" else wanted)
    assert {fire["cause"] for fire in world.fires()} == {f"backfill:{number}"}
    assert min(run["slot_no"] for run in world.runs()) == 1000


def test_a_backfill_that_cannot_go_on_stops_no_other(world, monkeypatch):
    broken, sound = world.job("broken"), world.job("sound")
    for job in (broken, sound):
        world.cron(job, "0 * * * *")
        begin(world, job, BackfillPlan(NOON - 3 * HOUR, NOON, max_parallel=1))
    start = world.acts.start_run

    def start_run(connection, job_id, **more):
        if job_id == broken:
            raise RuntimeError("nobody thought of it")
        return start(connection, job_id, **more)

    report = tick(world.metadata, NOON + SECOND, RunActs(start_run, world.acts.cancel_run))
    assert [(number, str(problem)) for number, problem in report.stuck_backfills] == [(1, "nobody thought of it")]
    assert [run["job_name"] for run in world.runs()] == ["sound"]


def test_a_backfill_stands_beside_the_schedule(world):
    job = world.job()
    world.cron(job, "0 * * * *")
    begin(world, job, BackfillPlan(NOON - 3 * HOUR, NOON, max_parallel=1))
    world.tick(NOON + HOUR)
    assert sorted((run["slot_no"], run["trigger_id"].split("@")[0].split(":")[0]) for run in world.runs()) == [
        (0, "cron"),
        (1000, "backfill"),
    ]


def test_the_same_interval_runs_once_for_each_backfill(world):
    world.status = Status.COMPLETED
    job = world.job()
    world.cron(job, "0 * * * *")
    plan = BackfillPlan(NOON - 2 * HOUR, NOON, max_parallel=5)
    assert begin(world, job, plan) == begin(world, job, plan)
    second = begin(world, job, plan, key="again")
    world.tick(NOON)
    world.tick(NOON)
    assert len(world.runs()) == 4
    with pytest.raises(StateConflict, match="CTL-215"):
        begin(world, job, plan._replace(max_parallel=1))
    assert (second, "DONE") in shown(world, job)


def test_a_cancelled_backfill_starts_no_more(world):
    job = world.job()
    world.cron(job, "0 * * * *")
    number = begin(world, job, BackfillPlan(NOON - 3 * HOUR, NOON))
    world.tick(NOON)
    with world.metadata.begin() as connection:
        assert cancel_backfill(connection, job, number, NOON)
        assert not cancel_backfill(connection, job, number, NOON)
    world.end(world.runs()[0]["execution_id"], NOON)
    world.tick(NOON + SECOND)
    assert (len(world.runs()), shown(world, job)) == (1, [(number, "CANCELLED")])
    with world.metadata.begin() as connection, pytest.raises(UnknownName):
        cancel_backfill(connection, job, number + 1, NOON)


def test_a_backfill_without_its_schedule_ends(world):
    job = world.job()
    world.cron(job, "0 * * * *")
    number = begin(world, job, BackfillPlan(NOON - 3 * HOUR, NOON))
    with world.metadata.begin() as connection:
        delete_schedule(connection, job)
    world.tick(NOON)
    assert shown(world, job) == [(number, "CANCELLED")]


def test_a_schedule_without_a_clock_has_no_intervals(world):
    job = world.job()
    stored = world.save(job, type="manual")
    with pytest.raises(InvalidStep, match="CTL-209"):
        backfill_intervals(stored, BackfillPlan(NOON - HOUR, NOON), NOON)
