"""Where windows begin, in milliseconds and in days of a time zone; many at once and one by one agree."""

import datetime as dt
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.model.time import MIN_TIME
from millstream.runtime.operators.window.grid import grid_of

DAY = 86_400_000
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
]
ZONES += ["Asia/Kathmandu", "Pacific/Apia", "UTC"]
instants = st.integers(-(10**11), 4 * 10**12)


def midnight(zone, day):
    """The first instant of a local date, found by looking at the date of every quarter of an hour around it."""
    at = dt.datetime.combine(day, dt.time(), dt.UTC) - dt.timedelta(hours=30)
    while at.astimezone(zone).date() < day:
        at += dt.timedelta(minutes=15)
    return round(at.timestamp() * 1000)


@pytest.mark.parametrize("name", ZONES)
@settings(max_examples=40, deadline=None)
@given(time=instants)
def test_a_day_begins_with_its_date(name, time):
    zone = zoneinfo.ZoneInfo(name)
    grid = grid_of(ms.tumbling("1d", time_zone=name))
    start = grid.start_of(time)
    end = grid.later(start, 1)
    assert start <= time < end
    day = dt.datetime.fromtimestamp(time / 1000, zone).date()
    # Before time zones were whole minutes, and where a date was left out, there is no such midnight to look for.
    if time > 0 and name != "Pacific/Apia":
        assert (start, end) == (midnight(zone, day), midnight(zone, day + dt.timedelta(days=1)))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([None, *ZONES]),
    days=st.sampled_from([(1, 1), (7, 7), (3, 1), (14, 7)]),
    offset=st.sampled_from(["0s", "4d", "6h", "90m"]),
    times=st.lists(instants, max_size=6),
    watermark=st.one_of(st.just(MIN_TIME), instants),
)
def test_many_and_one_agree(name, days, offset, times, watermark):
    size, slide = (f"{number}d" for number in days)
    grid = grid_of(ms.sliding(size, slide, offset=offset, time_zone=name))
    starts = grid.starts_of(np.array(times, np.int64))
    assert starts.tolist() == [grid.start_of(time) for time in times]
    for bins in (-2, 0, 1, grid.span):
        assert grid.all_later(starts, bins).tolist() == [grid.later(start, bins) for start in starts.tolist()]
    for start, found in zip(starts.tolist(), grid.next_ends(starts, watermark).tolist(), strict=True):
        ends = [grid.later(start, number) - 1 for number in range(1, grid.span + 1)]
        assert found == next((end for end in ends if end > watermark), ends[-1])


def test_days_on_which_clocks_change():
    grid = grid_of(ms.tumbling("1d", time_zone="Europe/Berlin"))

    def hours(text):
        start = grid.start_of(round(dt.datetime.fromisoformat(text).timestamp() * 1000))
        return (grid.later(start, 1) - start) / 3_600_000

    assert [hours(f"{day}T12:00:00+00:00") for day in ("2024-03-31", "2024-10-27", "2024-07-01")] == [23, 25, 24]


def test_a_time_that_the_wall_shows_twice_counts_at_the_first():
    """At 01:00 UTC clocks go from 03:00 back to 02:00: 02:30 comes at 00:30 and at 01:30 UTC."""
    grid = grid_of(ms.tumbling("1d", time_zone="Europe/Berlin", offset="2h 30m"))
    times = [
        round(dt.datetime.fromisoformat(f"2024-10-27T{at}:00+00:00").timestamp()) * 1000
        for at in ("00:29", "00:30", "01:10", "01:40")
    ]
    assert [grid.start_of(time) == times[1] for time in times] == [False, True, True, True]
    assert grid.starts_of(np.array(times)).tolist() == [grid.start_of(time) for time in times]


def test_the_ends_of_what_a_calendar_knows():
    grid = grid_of(ms.tumbling("1d", time_zone="Europe/Berlin"))
    for time in (-(2**55), 2**55):
        assert grid.start_of(time) <= time < grid.later(grid.start_of(time), 1)
