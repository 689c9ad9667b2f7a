"""Which fires run, by the clock and by what was decided before."""

import datetime as dt

import pytest
from cron_oracle import expected_fires
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.control.schedule.cron import cron_times
from millstream.control.schedule.decide import LATE, MOST_AT_ONCE, MOST_LISTED, decide

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
HOURLY = cron_times("0 * * * *", "UTC")
MINUTELY = cron_times("* * * * *", "UTC")
HOUR, MINUTE, SECOND = dt.timedelta(hours=1), dt.timedelta(minutes=1), dt.timedelta(seconds=1)


def verdicts(due):
    return [(each.fire_time, each.skipped is None) for each in due.fires]


@pytest.mark.parametrize("misfire", ["skip", "one", "all"])
def test_a_fire_in_time_runs_under_every_policy(misfire):
    due = decide(HOURLY, misfire, dt.timedelta(), decided=NOON - HOUR, now=NOON + LATE)
    assert verdicts(due) == [(NOON, True)]
    assert due.next_time == NOON + HOUR


def test_later_than_a_minute_is_missed():
    now = NOON + LATE + SECOND
    (skipped,) = decide(HOURLY, "skip", HOUR, decided=NOON - HOUR, now=now).fires
    assert "missed by 61 s" in skipped.skipped
    assert verdicts(decide(HOURLY, "one", HOUR, decided=NOON - HOUR, now=now)) == [(NOON, True)]
    (late,) = decide(HOURLY, "one", MINUTE, decided=NOON - HOUR, now=now).fires
    assert "grace" in late.skipped


def test_one_runs_the_newest_and_lists_the_others():
    due = decide(HOURLY, "one", 24 * HOUR, decided=NOON - 4 * HOUR, now=NOON + 30 * MINUTE)
    assert [is_run for _, is_run in verdicts(due)] == [False, False, False, True]
    assert all("a newer fire stands for it" in each.skipped for each in due.fires[:-1])


def test_one_runs_nothing_late_beside_what_is_in_time():
    due = decide(MINUTELY, "one", HOUR, decided=NOON - 10 * MINUTE, now=NOON + 59 * SECOND)
    assert [is_run for _, is_run in verdicts(due)] == [False] * 9 + [True]


def test_all_runs_those_within_the_grace():
    due = decide(HOURLY, "all", 3 * HOUR, decided=NOON - 5 * HOUR, now=NOON + 30 * MINUTE)
    assert [is_run for _, is_run in verdicts(due)] == [False, False, True, True, True]


def test_all_runs_a_hundred_at_most():
    due = decide(MINUTELY, "all", 24 * HOUR, decided=NOON - 130 * MINUTE, now=NOON)
    runs = [at for at, is_run in verdicts(due) if is_run]
    assert len(due.fires) == 130
    assert runs == [NOON - n * MINUTE for n in reversed(range(MOST_AT_ONCE))]
    assert "more than 100" in due.fires[0].skipped


def test_a_year_of_absence_is_decided_at_once():
    due = decide(MINUTELY, "one", HOUR, decided=NOON - 365 * 24 * HOUR, now=NOON + 2 * MINUTE + SECOND)
    assert len(due.fires) == MOST_LISTED + 1
    assert "stands for every fire since 2025-03-01T12:01" in due.fires[0].skipped
    assert due.fires[0].fire_time == NOON - (MOST_LISTED - 2) * MINUTE
    assert [is_run for _, is_run in verdicts(due)][-2:] == [False, True]
    assert due.next_time == NOON + 3 * MINUTE


def test_nothing_fires_twice_when_the_clock_goes_back():
    first = decide(HOURLY, "one", HOUR, decided=NOON - HOUR, now=NOON)
    assert verdicts(first) == [(NOON, True)]
    for minutes in (30, 59, 1):
        again = decide(HOURLY, "one", HOUR, decided=NOON, now=NOON - minutes * MINUTE)
        assert (again.fires, again.next_time) == ((), NOON + HOUR)
    assert verdicts(decide(HOURLY, "one", HOUR, decided=NOON, now=NOON + HOUR)) == [(NOON + HOUR, True)]


STEPS = st.lists(st.integers(-90 * 60, 200 * 60), min_size=1, max_size=12)
EXPRESSIONS = st.sampled_from(
    ["*/5 * * * *", "30 2 * * *", "*/20 1-3 * * *", "0 * * * *", "15,45 2 * * *", "30 * * * *"]
)
ZONES = st.sampled_from(
    [
        ("Europe/Berlin", "2026-10-25T00:00"),
        ("America/New_York", "2026-03-08T05:00"),
        ("Australia/Lord_Howe", "2026-04-04T12:00"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, ZONES, STEPS, st.sampled_from(["skip", "one", "all"]), st.integers(0, 7200))
def test_every_fire_is_decided_exactly_once_however_the_clock_goes(expression, place, steps, misfire, grace):
    zone, begin = place
    start = now = highest = dt.datetime.fromisoformat(begin).replace(tzinfo=dt.UTC) + 17 * SECOND
    times, decided, seen = cron_times(expression, zone), start, []
    for step in steps:
        now += step * SECOND
        highest = max(highest, now)
        due = decide(times, misfire, grace * SECOND, decided=decided, now=now)
        for fire, skipped in due.fires:
            is_late = now - fire > LATE
            assert skipped is None or is_late, "what is in time runs"
            assert skipped is not None or not is_late or (misfire != "skip" and now - fire <= grace * SECOND)
        if due.fires:
            decided = due.fires[-1].fire_time
        seen += [fire for fire, _ in due.fires]
        assert due.next_time > max(now, decided)
    assert seen == expected_fires(expression, zone, start, highest)
