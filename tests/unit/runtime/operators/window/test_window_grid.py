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
from millstream.testing import run_job

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


LEFT_OUT = {"Pacific/Apia": "2011-12-30", "Pacific/Kwajalein": "1993-08-21", "Asia/Manila": "1844-12-31"}


@pytest.mark.parametrize("offset", ["0s", "6h"])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_date_that_was_left_out_is_no_day(name, offset):
    zone, left_out = zoneinfo.ZoneInfo(name), dt.date.fromisoformat(LEFT_OUT[name])
    grid = grid_of(ms.sliding("3d", "1d", offset=offset, time_zone=name))
    wall = dt.time(6 if offset == "6h" else 0)
    days = [left_out + dt.timedelta(days=number) for number in range(-6, 7) if number]
    starts = [round(dt.datetime.combine(day, wall, zone).timestamp() * 1000) for day in days]
    for place in range(3, len(days) - 4):
        time = (starts[place] + starts[place + 1]) // 2
        expected = [(starts[first], starts[first + 3]) for first in range(place - 2, place + 1)]
        assert grid.windows_at(time) == expected
        many = [(int(start[0]), int(end[0])) for start, end in grid.windows_of(np.array([time]))]
        assert many == expected
        number = grid.number(time)
        assert grid.numbered(np.array([number, number + 1])).tolist() == starts[place : place + 2]


@pytest.mark.parametrize("kind", ["aggregate", "process"])
def test_windows_around_a_date_that_was_left_out(kind):
    job = ms.Job("apia")
    rows = job.source("in", ms.memory([]), schema="k string, at timestamp").event_time("at").key_by("k")
    windowed = rows.window(ms.sliding("3d", "1d", time_zone="Pacific/Apia"))
    schema = "window_start timestamp, window_end timestamp, n long"
    made = windowed.aggregate(n=ms.count(), id="w") if kind == "aggregate" else windowed.process(counted, schema=schema)
    made.sink("out", ms.collect("o"))
    # The 29th and the 31st in Apia: the day between was left out.
    given_rows = [{"k": "a", "at": f"2011-12-{day}T12:00:00Z"} for day in (29, 30)]
    found = run_job(job, {"in": given_rows})["out"]
    zone = zoneinfo.ZoneInfo("Pacific/Apia")
    bounds = [
        [row[name].astimezone(zone).strftime("%m-%d %H") for name in ("window_start", "window_end")] for row in found
    ]
    assert [(*bound, row["n"]) for bound, row in zip(bounds, found, strict=True)] == [
        ("12-27 00", "12-31 00", 1),
        ("12-28 00", "01-01 00", 2),
        ("12-29 00", "01-02 00", 2),
        ("12-31 00", "01-03 00", 1),
    ]


def counted(key, window, rows):
    return [{"window_start": window.start_time, "window_end": window.end_time, "n": len(rows)}]
