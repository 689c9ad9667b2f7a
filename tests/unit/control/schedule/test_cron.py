"""Cron in time zones, by the rules of Debian's cron: cases by hand, and against a second implementation."""

import datetime as dt
import itertools

import pytest
from cron_oracle import expected_fires
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.control.schedule.cron import cron_times
from millstream.errors import InvalidStep

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
# Expression, zone, after (UTC), the next fires (UTC).
CASES = [
    # The clock goes forward: a named time that does not come runs at the end of the gap, once.
    ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
    ("0,30 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:00"]),
    ("0 2,3 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T01:00"]),
    ("30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
    ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
    ("45 2 * * *", LORD_HOWE, "2026-10-03T12:00", ["2026-10-03T15:45", "2026-10-04T15:45"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["2026-04-23T22:00", "2026-04-24T21:00"]),
    # ... and one that names every minute or hour runs by what the clock shows.
    ("30 * * * *", BERLIN, "2026-03-29T00:00", ["2026-03-29T00:30", "2026-03-29T01:30", "2026-03-29T02:30"]),
    ("*/30 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-30T00:00", "2026-03-30T00:30"]),
    ("0 */2 * * *", BERLIN, "2026-03-28T22:30", ["2026-03-28T23:00", "2026-03-29T02:00"]),
    ("30 * * * *", LORD_HOWE, "2026-10-03T14:45", ["2026-10-03T15:00", "2026-10-03T15:30", "2026-10-03T16:30"]),
    ("* 3 * * *", LORD_HOWE, "2026-10-03T15:45", ["2026-10-03T16:00", "2026-10-03T16:01"]),
    # The clock goes back: a named time runs the first time, one by the clock both times.
    ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
    ("30 2 * * *", BERLIN, "2026-10-25T00:45", ["2026-10-26T01:30"]),
    ("50 2 * * *", BERLIN, "2026-10-25T01:45", ["2026-10-26T01:50"]),
    ("30 * * * *", BERLIN, "2026-10-25T00:00", ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]),
    ("*/30 2 * * *", BERLIN, "2026-10-24T12:00", ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00"]),
    ("0 3 * * *", BERLIN, "2026-10-24T12:00", ["2026-10-25T02:00", "2026-10-26T02:00"]),
    ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
    ("45 1 * * *", LORD_HOWE, "2026-04-04T10:00", ["2026-04-04T14:45", "2026-04-05T15:15"]),
    ("45 * * * *", LORD_HOWE, "2026-04-04T14:00", ["2026-04-04T14:45", "2026-04-04T15:15", "2026-04-04T16:15"]),
    ("* 2 * * *", LORD_HOWE, "2026-04-04T15:20", ["2026-04-04T15:30", "2026-04-04T15:31"]),
    # Dates that are rare.
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T00:00"]),
    ("0 0 31 * *", "UTC", "2026-01-31T00:00", ["2026-03-31T00:00", "2026-05-31T00:00"]),
    ("0 0 * 2 MON#5", "UTC", "2026-01-01T00:00", ["2044-02-29T00:00"]),
    # A day and a weekday: either, unless one begins with a star.
    ("0 0 13 * FRI", "UTC", "2026-02-01T00:00", ["2026-02-06T00:00", "2026-02-13T00:00", "2026-02-20T00:00"]),
    ("0 0 13 * 5", "UTC", "2026-01-10T00:00", ["2026-01-13T00:00", "2026-01-16T00:00"]),
    ("0 0 */2 * 1", "UTC", "2026-01-01T00:00", ["2026-01-05T00:00", "2026-01-19T00:00"]),
    ("0 0 1-7 * *", "UTC", "2026-01-06T12:00", ["2026-01-07T00:00", "2026-02-01T00:00"]),
    # Weekdays: Sunday is 0 and 7.
    ("0 0 * * 0", "UTC", "2026-01-01T00:00", ["2026-01-04T00:00", "2026-01-11T00:00"]),
    ("0 0 * * 7", "UTC", "2026-01-01T00:00", ["2026-01-04T00:00"]),
    ("0 0 * * 5-7", "UTC", "2026-01-01T00:00", ["2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00"]),
    ("0 0 * * mon-wed", "UTC", "2026-01-01T00:00", ["2026-01-05T00:00", "2026-01-06T00:00", "2026-01-07T00:00"]),
    ("0 0 * jan,jul 1", "UTC", "2026-01-26T00:00", ["2026-07-06T00:00"]),
    # The last, the nth.
    ("0 0 L * *", "UTC", "2026-01-31T12:00", ["2026-02-28T00:00", "2026-03-31T00:00"]),
    ("0 0 LW * *", "UTC", "2026-01-01T00:00", ["2026-01-30T00:00", "2026-02-27T00:00"]),
    ("0 0 * * 5L", "UTC", "2026-01-01T00:00", ["2026-01-30T00:00", "2026-02-27T00:00"]),
    ("0 0 * * FRI#2", "UTC", "2026-01-01T00:00", ["2026-01-09T00:00", "2026-02-13T00:00"]),
    ("0 0 * * 1#1,1#3", "UTC", "2026-01-01T00:00", ["2026-01-05T00:00", "2026-01-19T00:00", "2026-02-02T00:00"]),
    # Lists, ranges, steps.
    ("0-10/5,59 23 * * *", "UTC", "2026-01-01T23:06", ["2026-01-01T23:10", "2026-01-01T23:59", "2026-01-02T23:00"]),
    ("5/20 4 * * *", "UTC", "2026-01-01T04:30", ["2026-01-01T04:45", "2026-01-02T04:05"]),
    ("0 6-6/6 * * *", "UTC", "2026-01-01T00:00", ["2026-01-01T06:00", "2026-01-02T06:00", "2026-01-03T06:00"]),
    ("8-8/1,9 4 * * *", "UTC", "2026-01-01T00:00", ["2026-01-01T04:08", "2026-01-01T04:09", "2026-01-02T04:08"]),
    ("0 0 * * SAT-SAT/1", "UTC", "2026-01-01T00:00", ["2026-01-03T00:00", "2026-01-10T00:00"]),
    ("59 23 31 12 *", NEW_YORK, "2026-06-01T00:00", ["2027-01-01T04:59"]),
    ("* * * * *", "UTC", "2026-01-01T00:00:30", ["2026-01-01T00:01", "2026-01-01T00:02"]),
]


def utc(text):
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(("expression", "zone", "after", "fires"), CASES)
def test_the_next_fires(expression, zone, after, fires):
    times = cron_times(expression, zone)
    assert list(itertools.islice(times.from_(utc(after)), len(fires))) == [utc(each) for each in fires]


@pytest.mark.parametrize(("expression", "zone", "after", "fires"), CASES)
def test_the_fires_before_are_the_same_backwards(expression, zone, after, fires):
    times = cron_times(expression, zone)
    at, found = utc(fires[-1]) + dt.timedelta(seconds=1), []
    while (at := times.before(at)) is not None and at > utc(after):
        found.append(at)
    assert found[::-1] == [utc(each) for each in fires]


def test_the_forty_cases_are_there():
    assert len(CASES) >= 40


CHANGES = [
    (BERLIN, "2026-03-28"),
    (BERLIN, "2026-10-24"),
    (NEW_YORK, "2026-03-07"),
    (NEW_YORK, "2026-10-31"),
    (LORD_HOWE, "2026-10-03"),
    (LORD_HOWE, "2026-04-04"),
    ("Africa/Cairo", "2026-04-23"),
    ("Africa/Cairo", "2026-10-28"),
    ("Pacific/Apia", "2011-12-29"),
]
MINUTES = st.sampled_from(["*", "*/7", "*/15", "0", "5", "30", "59", "15,45", "0-59/20", "10-40", "7/13"])
HOURS = st.sampled_from(["*", "*/2", "*/3", "0", "1", "2", "3", "1-3", "0,23", "1,2", "2-23/3"])
DAYS = st.sampled_from(["* * *", "* * 0,6", "L * *", "1-15 * *", "*/2 * *", "29,30 * 6", "* 3,4,10 *"])


@settings(max_examples=120, deadline=None)
@given(MINUTES, HOURS, DAYS, st.sampled_from(CHANGES), st.integers(0, 1440), st.integers(0, 59))
def test_fires_around_a_change_are_those_of_a_second_implementation(minute, hour, days, change, offset, second):
    zone, day = change
    expression = f"{minute} {hour} {days}"
    after = utc(day) + dt.timedelta(minutes=offset, seconds=second)
    until = utc(day) + dt.timedelta(days=3)
    expected = expected_fires(expression, zone, after, until)
    times = cron_times(expression, zone)
    assert list(times.between(after, until)) == expected
    at, back = until + dt.timedelta(microseconds=1), []
    while (at := times.before(at)) is not None and at > after:
        back.append(at)
    assert back[::-1] == expected
    for before, fire in itertools.pairwise(expected):
        assert times.interval(fire) == (before, fire)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * *", ["4 fields", "five fields"]),
        ("0 * * * * *", ["6 fields", "seconds are not offered"]),
        ("", ["empty"]),
        ("60 * * * *", ["minute", "'60'", "0-59"]),
        ("* 24 * * *", ["hour", "'24'", "0-23"]),
        ("* * 0 * *", ["day of month", "'0'", "1-31"]),
        ("* * * 13 *", ["month", "'13'", "JAN"]),
        ("* * * * 8", ["day of week", "'8'", "0-7"]),
        ("* 22-2 * * *", ["hour", "'22-2'", "runs upwards"]),
        ("*/0 * * * *", ["minute", "'*/0'", "above zero"]),
        ("*/61 * * * *", ["minute", "'*/61'", "at most 60"]),
        ("0 0 * */13 *", ["month", "'*/13'", "at most 12"]),
        ("1,,2 * * * *", ["minute", "''"]),
        ("* * * * MONL", ["day of week", "'MONL'"]),
        ("* * * * 1#6", ["day of week", "'1#6'", "5#2"]),
        ("* * W * *", ["day of month", "'W'"]),
        ("@daily", ["1 fields"]),
        ("0" * 5000 + " * * * *", ["too long"]),
        ("99999 * * * *", ["minute"]),
        ("٣ * * * *", ["minute"]),
        (None, ["no text"]),
    ],
)
def test_an_error_names_field_value_and_expectation(expression, words):
    with pytest.raises(InvalidStep) as refused:
        cron_times(expression, "UTC")
    assert refused.value.code == "CTL-201"
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6 *", "0 0 31 2 */2"])
def test_a_date_that_does_not_exist_is_refused(expression):
    with pytest.raises(InvalidStep, match="CTL-202"):
        cron_times(expression, "UTC")


@pytest.mark.parametrize("zone", ["Europe/Berln", "../etc/passwd", "", "localtime/x", "CEST", "localtime", "Factory"])
def test_a_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(InvalidStep, match="CTL-203"):
        cron_times("* * * * *", zone)


def test_a_zone_that_is_nearly_right_is_suggested():
    with pytest.raises(InvalidStep, match="Europe/Berlin"):
        cron_times("* * * * *", "Europe/Berln")
