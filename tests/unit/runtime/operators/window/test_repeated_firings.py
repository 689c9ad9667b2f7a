"""Windows that fire more than once: at multiples of event time, and for late rows."""

import pytest

import millstream as ms
from millstream.testing import WATERMARK, run_job


def shown(trigger, script, closing="aggregate", window=None, lateness=0):
    job = ms.Job("shown")
    keyed = job.source("in", ms.memory([]), schema="k string, at long, v long").event_time("at", max_delay="1h")
    windows = keyed.key_by("k").window(window or ms.tumbling("1m"), trigger=trigger, allowed_lateness=lateness)
    if closing == "aggregate":
        made = windows.aggregate(v=ms.sum("v"), id="w")
    else:
        made = windows.reduce(lambda held, came: {**came, "v": held["v"] + came["v"]}, id="w")
    made.sink("out", ms.collect("out"))
    rows = [{"k": "a", "at": step[0], "v": step[1]} if isinstance(step, tuple) else step for step in script]
    return [row["v"] for row in run_job(job, {"in": rows})["out"]]


EVERY = ms.trigger.every("10s", time="event")


@pytest.mark.parametrize("closing", ["aggregate", "reduce"])
def test_every_multiple_of_event_time_shows_what_came_since(closing):
    """A row that lies further ahead than the next multiple is shown there all the same."""
    script = [
        (1000, 1),
        WATERMARK(9_999),
        (35_000, 2),
        WATERMARK(19_999),
        WATERMARK(29_999),
        (52_000, 4),
        WATERMARK(45_000),
    ]
    assert shown(EVERY, script, closing) == [1, 3, 7, 7]


@pytest.mark.parametrize("closing", ["aggregate", "reduce"])
def test_every_multiple_of_event_time_begins_behind_the_earliest_row(closing):
    script = [(25_000, 1), WATERMARK(5_000), (38_000, 2), WATERMARK(19_999), WATERMARK(29_999), WATERMARK(49_999)]
    assert shown(EVERY, script, closing) == [3, 3]


def test_the_trigger_that_windows_have_anyway_changes_nothing():
    """Aggregates fire once for the late rows of an epoch, reductions for each; saying the trigger does not change that."""
    script = [(1000, 1), WATERMARK(60_000), (2000, 2), (3000, 4)]
    for closing, wanted in (("aggregate", [1, 7]), ("reduce", [1, 3, 7])):
        for trigger in (None, ms.trigger.event_time()):
            assert shown(trigger, script, closing, lateness="1h") == wanted
