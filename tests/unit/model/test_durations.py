import datetime as dt
import re
import time
from pathlib import Path

import pytest

import millstream as ms
from millstream.errors import InvalidStep
from millstream.model.time import (
    LONGEST_DURATION,
    MAX_TIME,
    MIN_TIME,
    duration_ms,
    instant_text,
    now_ms,
    positive_ms,
    to_datetime,
)
from millstream.testing import run_job


@pytest.mark.parametrize(
    ("given", "ms_"),
    [
        ("500ms", 500),
        ("1s", 1000),
        ("1.5s", 1500),
        ("1m", 60_000),
        ("1min", 60_000),
        ("1h 30m", 5_400_000),
        ("1h30m", 5_400_000),
        ("2 d", 172_800_000),
        (0, 0),
        (1, 1000),
        (0.25, 250),
        (dt.timedelta(milliseconds=7), 7),
    ],
)
def test_durations(given, ms_):
    assert duration_ms(given) == ms_


@pytest.mark.parametrize("bad", ["", "5", "-5s", "1x", "1m later", "s", True, None, float("nan"), float("inf"), b"1s"])
def test_what_is_not_a_duration_is_refused(bad):
    with pytest.raises(InvalidStep) as caught:
        duration_ms(bad, what="ttl")
    assert caught.value.code == "STEP-004"
    assert "ttl" in str(caught.value)


LONG = ["365251d", "999999999d", "9" * 400 + "d", 10**400, 1e300, 1e308, dt.timedelta.max, -(10**30)]


@pytest.mark.parametrize("bad", LONG)
def test_what_is_too_long_to_reckon_with_is_refused(bad):
    with pytest.raises(InvalidStep, match="ttl is longer than 1000 years") as caught:
        duration_ms(bad, what="ttl")
    assert caught.value.code == "STEP-004"
    assert duration_ms("365250d") == LONGEST_DURATION


@pytest.mark.parametrize("bad", ["0s", 0, -1, dt.timedelta(seconds=-1)])
def test_positive_means_above_zero(bad):
    with pytest.raises(InvalidStep):
        positive_ms(bad, what="gap")


def test_instants():
    assert to_datetime(-1).isoformat() == "1969-12-31T23:59:59.999000+00:00"
    assert instant_text(0) == "1970-01-01T00:00:00.000Z"
    assert (instant_text(MIN_TIME), instant_text(MAX_TIME)) == ("-", "end")


def stream():
    return ms.Job("negative").source("in", ms.memory([]), schema="k string, at long")


def test_negative_delays_and_lateness_are_refused_where_they_are_written():
    with pytest.raises(InvalidStep, match="max_delay"):
        stream().event_time("at", max_delay=-1)
    with pytest.raises(InvalidStep, match="allowed_lateness"):
        stream().event_time("at").key_by("k").window(ms.tumbling("1s"), allowed_lateness=-1).aggregate(n=ms.count())


FAR = "999999999d"
FAR_STEPS = {
    "window size": lambda keyed: keyed.window(ms.tumbling(FAR)),
    "window offset": lambda keyed: keyed.window(ms.tumbling("1s", offset="-" + FAR)),
    "session gap": lambda keyed: keyed.window(ms.session(FAR)),
    "allowed_lateness": lambda keyed: keyed.window(ms.tumbling("1s"), allowed_lateness=FAR),
    "within": lambda keyed: keyed.join(keyed, prefix="r_", within=("-" + FAR, "1s")),
    "keep": lambda keyed: keyed.join(keyed, prefix="r_", keep=FAR),
    "ttl": lambda keyed: keyed.deduplicate(ttl=FAR),
    "interval": lambda keyed: ms.trigger.every(FAR),
}


@pytest.mark.parametrize("what", FAR_STEPS)
def test_durations_of_steps_are_bounded(what):
    with pytest.raises(InvalidStep, match=f"{what} is longer than 1000 years"):
        FAR_STEPS[what](stream().event_time("at").key_by("k"))


def test_the_longest_durations_overflow_nothing():
    job = ms.Job("long")
    rows = job.source("in", ms.memory([]), schema="k string, at long").event_time("at", max_delay="365250d")
    kept = rows.key_by("k").window(ms.tumbling("365250d"), allowed_lateness="365250d").aggregate(n=ms.count())
    kept.sink("o", ms.collect("o"))
    made = run_job(job, {"in": [{"k": "a", "at": 1_700_000_000_000}]}, rows_per_epoch=1)["o"]
    assert [(row["window_start"].year, row["window_end"].year) for row in made] == [(1970, 2970)]


def test_the_moment_is_read_off_the_clock_in_one_place():
    before = time.time() * 1000
    assert before - 1 <= now_ms() <= time.time() * 1000
    by_hand = re.compile(r"time_ns\(\) *// *1_?000_?000|\btime\(\) *\* *1_?000")
    package = Path(ms.__file__).parent
    found = [str(path) for path in package.rglob("*.py") if by_hand.search(path.read_text())]
    assert found == [str(package / "model" / "time.py")]
