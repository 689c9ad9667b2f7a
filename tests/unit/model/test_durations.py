import datetime as dt

import pytest

import millstream as ms
from millstream.errors import InvalidStep
from millstream.model.time import MAX_TIME, MIN_TIME, duration_ms, instant_text, positive_ms, to_datetime


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
