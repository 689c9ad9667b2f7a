"""What user code may raise ends a step or refuses a record, also where Python gives the exception a meaning of its own."""

import signal
import sys

import pytest

import millstream as ms
from millstream.errors import StepFailed
from millstream.testing import run_job

ROWS = [{"k": "a", "v": value, "at": value} for value in range(6)]
BAD = 3


def rows_of(job):
    return job.source("in", ms.memory([]), schema="k string, v long, at long").event_time("at")


def out_of_tags(row):
    if row["v"] == BAD:
        next(iter([]))
    return row


@pytest.mark.parametrize("bad", [{0}, {3}, {5}, {0, 1, 5}, set(range(6))])
def test_a_map_that_raises_stop_iteration_refuses_that_row(bad):
    def shaky(row):
        return next(iter([])) if row["v"] in bad else row

    job = ms.Job("stops")
    rows_of(job).map(shaky, schema="k string, v long, at long", on_error="skip", id="m").sink("o", ms.collect("o"))
    made = run_job(job, {"in": ROWS})
    assert [(row["v"], row["at"]) for row in made["o"]] == [(value, value) for value in range(6) if value not in bad]
    assert made.counts["m"].skipped == len(bad)


def test_a_stop_iteration_between_python_steps_moves_no_row():
    job = ms.Job("stops")
    first = rows_of(job).filter(lambda row: row["v"] != 1, id="f")
    first.map(out_of_tags, schema="k string, v long, at long", on_error="skip", id="m").filter(
        lambda row: True, id="g"
    ).sink("o", ms.collect("o"))
    assert [row["v"] for row in run_job(job, {"in": ROWS})["o"]] == [0, 2, 4, 5]


def test_a_stop_iteration_fails_the_step_with_its_record():
    job = ms.Job("stops")
    rows_of(job).map(out_of_tags, schema="k string, v long, at long", id="m").sink("o", ms.collect("o"))
    with pytest.raises(StepFailed, match="StopIteration") as failed:
        run_job(job, {"in": ROWS})
    assert (failed.value.code, failed.value.step) == ("RUN-001", "m")
    assert '"v": 3' in failed.value.found


def leave(*_):
    sys.exit(0)


async def leave_async(row):
    sys.exit(0)


class LeavingProcess(ms.ProcessFunction):
    def process(self, row, ctx):
        leave()


class LeavingTimer(ms.ProcessFunction):
    def process(self, row, ctx):
        ctx.event_timer(1)

    def on_timer(self, timestamp, ctx):
        leave()


class LeavingOpen(ms.ProcessFunction):
    def open(self, ctx):
        leave()

    def process(self, row, ctx):
        return []


def windowed(rows):
    return rows.key_by("k").window(ms.tumbling("1s"))


LEAVING = {
    "map": lambda rows: rows.map(leave, schema="v long", id="s"),
    "skipping map": lambda rows: rows.map(leave, schema="v long", on_error="skip", id="s"),
    "flat_map": lambda rows: rows.flat_map(leave, schema="v long", id="s"),
    "filter": lambda rows: rows.filter(leave, id="s"),
    "map_batches": lambda rows: rows.map_batches(leave, schema="v long", id="s"),
    "async_map": lambda rows: rows.async_map(leave_async, schema="v long", id="s"),
    "process": lambda rows: rows.key_by("k").process(LeavingProcess, schema="v long", id="s"),
    "timer": lambda rows: rows.key_by("k").process(LeavingTimer, schema="v long", id="s"),
    "open": lambda rows: rows.key_by("k").process(LeavingOpen, schema="v long", id="s"),
    "reduce": lambda rows: rows.key_by("k").reduce(lambda held, row: leave(), id="s"),
    "window": lambda rows: windowed(rows).process(lambda key, window, rows: leave(), schema="v long", id="s"),
    "condition": lambda rows: (
        rows.key_by("k").pattern(ms.pattern.begin("a").where(lambda row: leave())).measures(n="a.v", id="s")
    ),
}


@pytest.mark.parametrize("kind", LEAVING)
def test_an_exit_in_user_code_fails_its_step(kind):
    job = ms.Job("leaves")
    LEAVING[kind](rows_of(job)).sink("o", ms.collect("o"))
    with pytest.raises(StepFailed, match=r"SystemExit: 0 at test_user_problems\.py") as failed:
        run_job(job, {"in": ROWS})
    assert failed.value.step == "s"


def test_a_keyboard_interrupt_in_user_code_stays_one():
    def interrupt(row):
        raise KeyboardInterrupt

    job = ms.Job("interrupted")
    rows_of(job).map(interrupt, schema="v long", on_error="skip", id="s").sink("o", ms.collect("o"))
    with pytest.raises(KeyboardInterrupt):
        run_job(job, {"in": ROWS})


def test_a_signal_handler_that_ends_the_program_fails_no_step():
    def signalled(row):
        signal.raise_signal(signal.SIGUSR1)
        return row

    def end(number, frame):
        sys.exit(143)

    job = ms.Job("signalled")
    rows_of(job).map(signalled, schema="k string, v long, at long", id="s").sink("o", ms.collect("o"))
    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(SystemExit, match="143"):
            run_job(job, {"in": ROWS})
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kind", ["event_timer", "processing_timer"])
@pytest.mark.parametrize("at", [1 << 80, -(1 << 63)])
def test_a_timer_that_is_no_instant_is_refused_with_its_step(kind, at):
    class FarTimer(ms.ProcessFunction):
        def process(self, row, ctx):
            getattr(ctx, kind)(at)

    job = ms.Job("far")
    rows_of(job).key_by("k").process(FarTimer, schema="v long", id="s").sink("o", ms.collect("o"))
    with pytest.raises(StepFailed, match="a timer is set for no instant") as failed:
        run_job(job, {"in": ROWS})
    assert (failed.value.code, failed.value.step) == ("RUN-008", "s")


def test_a_timer_behind_the_end_of_time_may_be_set():
    class LastTimer(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.event_timer(2**63 - 1)

    job = ms.Job("last")
    rows_of(job).key_by("k").process(LastTimer, schema="v long", id="s").sink("o", ms.collect("o"))
    assert run_job(job, {"in": ROWS})["o"] == []
