"""Time to live of state by either clock: what is read, what is swept, and when a step is woken for it."""

import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import InvalidStep
from millstream.model.time import MIN_TIME
from millstream.state.pages import NEVER


class Event(ms.ProcessFunction):
    """Writes what the row says, or only reads."""

    held = ms.ValueState(str, ttl="100ms", ttl_clock="event")

    def process(self, row, ctx):
        if row["v"]:
            self.held.update(row["v"])
        elif row["v"] is None:
            ctx.processing_timer(0)
        else:
            yield {"k": ctx.key[0], "text": self.held.value()}

    def on_timer(self, timestamp, ctx):
        self.held.update("timer")


class Read(Event):
    held = ms.ValueState(str, ttl="100ms", ttl_clock="event", ttl_update="read")


class Both(ms.ProcessFunction):
    """One state by each clock."""

    slow = ms.ValueState(str, ttl="100ms", ttl_clock="event")
    fast = ms.ValueState(str, ttl="100ms")

    def process(self, row, ctx):
        self.slow.update(row["v"])
        self.fast.update(row["v"])


def job_of(function, *, timed=True):
    job = ms.Job("ttl", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema="k string, at long, v string")
    rows = rows.event_time("at") if timed else rows
    rows.key_by("k").process(function, schema="k string, text string", id="p").sink("out", ms.collect("x"))
    return job


def write(v, at, k="a"):
    return {"k": k, "at": at, "v": v}


def read(at, k="a"):
    return {"k": k, "at": at, "v": ""}


def texts(made):
    return [row["text"] for row in made["out"]]


def test_the_watermark_sweeps_and_the_step_is_due_then():
    run = Epochs(job_of(Event))
    assert run.run([write("x", 50)], 0).event_due["p"] == 150
    assert run.run([], 149).event_due["p"] == 150
    assert not run.is_empty
    assert run.run([], 150).event_due["p"] == NEVER
    assert run.is_empty


def test_a_row_does_not_see_what_expired_before_it_although_the_watermark_is_behind():
    run = Epochs(job_of(Event))
    assert texts(run.run([write("x", 50), read(149), read(150), read(60)], 0)) == ["x", None, "x"]


def test_a_row_behind_the_watermark_sees_what_the_watermark_leaves():
    run = Epochs(job_of(Event))
    run.run([write("x", 50)], 0)
    assert texts(run.run([read(60)], 149)) == ["x"]
    assert texts(run.run([read(60)], 150)) == [None]


def test_an_older_write_does_not_shorten_the_life_of_a_newer_one():
    run = Epochs(job_of(Event))
    made = run.run([write("x", 90), write("y", 10), read(189), read(190)], 0)
    assert texts(made) == ["y", None]
    assert made.event_due["p"] == 190


def test_reading_prolongs_and_the_sweep_waits():
    run = Epochs(job_of(Read))
    run.run([write("x", 0)], 0)
    assert texts(run.run([read(99)], 50)) == ["x"]
    assert run.run([], 150).event_due["p"] == 199
    assert texts(run.run([read(198)], 160)) == ["x"]
    run.run([], 298)
    assert run.is_empty


def test_a_write_without_event_time_is_dated_by_the_next_watermark():
    run = Epochs(job_of(Event))
    run.run([write(None, 0)], MIN_TIME)
    run.run([], MIN_TIME)
    assert not run.is_empty
    run.run([], 1_000)
    assert run.run([], 1_050).event_due["p"] == 1_100
    run.run([], 1_100)
    assert run.is_empty


def test_each_state_expires_by_its_own_clock():
    run = Epochs(job_of(Both))
    run.run([write("x", 0)], 0, now=0)
    due = run.run([], 0, now=100)
    assert due.event_due["p"] == 100
    assert not run.is_empty
    run.run([], 100, now=100)
    assert run.is_empty


def test_only_pages_with_something_due_are_read():
    run = Epochs(job_of(Event), page_bytes=1)
    run.run([write("x", at, k=f"k{at}") for at in range(0, 400, 50)], 0)
    before = sum(len(store.reads) for store in run.stores.values())
    run.run([], 99)
    assert sum(len(store.reads) for store in run.stores.values()) - before <= 2


def test_a_clock_of_events_needs_event_time():
    with pytest.raises(InvalidStep) as caught:
        job_of(Event, timed=False).compile()
    assert (caught.value.code, caught.value.step) == ("STEP-040", "p")
    assert "'held'" in caught.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"ttl_clock": "event"},
        {"ttl_update": "read"},
        {"ttl": "1m", "ttl_clock": "wall"},
        {"ttl": "1m", "ttl_update": "never"},
        {"time_to_live": "1m"},
    ],
)
def test_wrong_options_are_refused_where_they_are_written(options):
    with pytest.raises(InvalidStep) as caught:
        ms.ValueState(int, **options)
    assert caught.value.code == "STATE-007"


def test_the_plan_says_how_long_state_is_kept():
    assert "held: value of str, kept 100ms of event time after it was read" in job_of(Read).explain("stream")
