"""Triggered windows epoch by epoch: panes that survive, due times, what is forgotten, and what user code gets wrong."""

import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import StepFailed
from millstream.model.time import MAX_TIME
from millstream.state.pages import NEVER

SCHEMA = "k string, at long, v long"
CONTINUE, FIRE, PURGE = ms.TriggerResult.CONTINUE, ms.TriggerResult.FIRE, ms.TriggerResult.PURGE


def at(time, value=1, key="a"):
    return {"k": key, "at": time, "v": value}


def job_of(window, *, timed=True, close=None, **options):
    job = ms.Job("windows", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    windowed = (rows.event_time("at") if timed else rows).key_by("k").window(window, **options)
    made = windowed.aggregate(n=ms.count(), total=ms.sum("v"), pane=True, id="w") if close is None else close(windowed)
    made.sink("out", ms.collect("x"))
    if "late" in made._node.outputs:
        made.late.sink("late", ms.collect("y"))
    return job


def panes(made):
    return [(row["total"], row["pane_index"], row["pane_timing"]) for row in made["out"]]


TEN = ms.tumbling(0.01)


def test_a_window_that_fired_on_time_goes_on_late():
    """The index and whether it fired on time are state: every epoch decodes them anew."""
    run = Epochs(job_of(TEN, allowed_lateness=0.1, trigger=ms.trigger.event_time().early(ms.trigger.count(1))))
    assert panes(run.run([at(1, 1)])) == [(1, 0, "EARLY")]
    assert panes(run.run([at(2, 2)])) == [(3, 1, "EARLY")]
    assert panes(run.run([], 9)) == [(3, 2, "ON_TIME")]
    assert panes(run.run([at(3, 4)])) == [(7, 3, "LATE")]
    assert panes(run.run([at(4, 8)])) == [(15, 4, "LATE")]
    made = run.run([], 109)
    assert (panes(made), made.event_due["w"]) == ([], NEVER)
    assert run.is_empty


def test_one_far_step_of_the_watermark_equals_many_small_ones():
    trigger = ms.trigger.every(0.004, time="event")
    far, near = (Epochs(job_of(TEN, trigger=trigger)) for _ in range(2))
    rows = [at(1, 1), at(5, 2), at(9, 4)]
    far.run(rows)
    near.run(rows)
    small = [pane for mark in range(10) for pane in panes(near.run([], mark))]
    assert small == panes(far.run([], 50)) == [(7, 0, "EARLY"), (7, 1, "ON_TIME")]


def test_due_times_are_those_of_timers_and_of_the_end():
    run = Epochs(job_of(TEN, allowed_lateness=0.005, trigger=ms.trigger.every(0.004, time="event")))
    assert run.run([at(1)]).event_due == {"w": 3}
    assert run.run([], 3).event_due == {"w": 9}
    assert run.run([], 9).event_due == {"w": 14}
    assert run.run([], 14).event_due == {"w": NEVER}
    clock = Epochs(job_of(ms.tumbling(0.01, time="processing"), timed=False, trigger=ms.trigger.every(0.004)))
    made = clock.run([at(1)], now=5)
    assert (made.processing_due, made.event_due["w"]) == (8, NEVER)
    assert clock.run([], now=8).processing_due == 10
    assert clock.run([], now=12).processing_due == NEVER
    assert clock.is_empty


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (ms.count_window(3), {}),
        (ms.count_window(3, 2), {}),
        (ms.global_window(), {"trigger": ms.trigger.count(3)}),
        (ms.global_window(), {"trigger": ms.trigger.every("1m")}),
        (ms.tumbling("1m", time="processing"), {}),
        (ms.session("1m", time="processing"), {"trigger": ms.trigger.count(5)}),
        (ms.session("1m"), {"trigger": ms.trigger.event_time().early(ms.trigger.every("1m"))}),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else "",
)
def test_nothing_is_left_behind_when_the_input_ends(window, options):
    run = Epochs(job_of(window, **options), parallelism=2, page_bytes=60)
    for number in range(7):
        run.run([at(number, key=key) for key in ("a", "b", None)], now=number)
    assert not run.is_empty
    run.run(terminal=True, now=9)
    assert run.is_empty


def test_a_count_window_keeps_nothing_of_a_key_between_windows():
    run = Epochs(job_of(ms.count_window(2), timed=False))
    assert [row["n"] for row in run.run([at(1), at(2)])["out"]] == [2]
    assert run.is_empty


def test_a_row_of_the_very_instant_at_which_a_window_of_the_clock_ends_is_in_the_next():
    run = Epochs(job_of(ms.tumbling(0.01, time="processing"), timed=False))
    run.run([at(0, 1)], now=9)
    assert panes(run.run([at(0, 2)], now=10)) == [(1, 0, "ON_TIME")]
    assert panes(run.run(terminal=True, now=11)) == [(2, 0, "ON_TIME")]


def test_results_without_event_time_carry_none():
    run = Epochs(job_of(ms.count_window(1), timed=False))
    assert run.run([at(7)]).counts["w"].rows_out == 1


def test_a_session_that_fired_and_grows_is_on_time_again_and_goes_on_counting_panes():
    run = Epochs(
        job_of(ms.session(0.01), allowed_lateness=0.1, trigger=ms.trigger.event_time().late(ms.trigger.count(1)))
    )
    run.run([at(0, 1)])
    assert panes(run.run([], 9)) == [(1, 0, "ON_TIME")]
    assert panes(run.run([at(0, 2)])) == [(3, 1, "LATE")]
    assert panes(run.run([at(5, 4)])) == []
    assert panes(run.run([], 14)) == [(7, 2, "ON_TIME")]
    assert panes(run.run([at(3, 8)])) == [(15, 3, "LATE")]


class Purge(ms.Trigger):
    """Forgets the rows at a negative value and fires at zero."""

    def on_row(self, row, window, ctx):
        return PURGE if row["v"] < 0 else FIRE if row["v"] == 0 else CONTINUE


def test_purging_without_firing():
    run = Epochs(job_of(ms.global_window(), timed=False, trigger=Purge))
    made = run.run([at(0, 1), at(0, -1), at(0, 2), at(0, 0), at(0, -1), at(0, 0)])
    assert [(row["n"], row["total"]) for row in made["out"]] == [(2, 2), (1, 0)]


class Behind(ms.Trigger):
    """Asks for timers that the watermark has passed already, and shows what it was asked."""

    def on_row(self, row, window, ctx):
        ctx.event_timer(row["at"] + 3)
        return CONTINUE

    def on_event_time(self, time, window, ctx):
        return FIRE


@pytest.mark.parametrize("epochs", [[[at(1, 1), at(2, 2), at(3, 4)]], [[at(1, 1)], [at(2, 2), at(3, 4)]]])
def test_a_timer_for_the_past_fires_right_behind_its_row_wherever_epochs_are_cut(epochs):
    run = Epochs(job_of(ms.tumbling(0.01, time="processing"), trigger=Behind))
    run.run([], 20)
    fired = [row["total"] for rows in epochs for row in run.run(rows)["out"]]
    assert fired == [1, 3, 7]


@pytest.mark.parametrize(
    ("window", "trigger", "expected"),
    [
        (TEN, ms.trigger.processing_time(), [(1, 0, "ON_TIME")]),
        (TEN, ms.trigger.every("1m"), [(1, 0, "ON_TIME")]),
        (ms.global_window(), ms.trigger.every("1m"), [(1, 0, "ON_TIME")]),
        (ms.tumbling(0.01, time="processing"), ms.trigger.every(0.004), [(1, 0, "EARLY"), (1, 1, "ON_TIME")]),
        (ms.tumbling(0.01, time="processing"), ms.trigger.count(2), []),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else "",
)
def test_rows_that_wait_for_the_clock_are_shown_when_the_input_ends(window, trigger, expected):
    run = Epochs(job_of(window, trigger=trigger))
    run.run([at(1)])
    assert panes(run.run(terminal=True)) == expected
    assert run.is_empty


def test_late_rows_that_wait_for_the_clock_are_shown_when_the_input_ends():
    trigger = ms.trigger.event_time().late(ms.trigger.every("1m"))
    run = Epochs(job_of(TEN, allowed_lateness=1, trigger=trigger))
    run.run([at(1, 1)])
    assert panes(run.run([], 9)) == [(1, 0, "ON_TIME")]
    assert panes(run.run([at(2, 2)])) == []
    assert panes(run.run(terminal=True)) == [(3, 1, "LATE")]
    assert run.is_empty


class Timers(ms.Trigger):
    """Fires when a timer comes that a row asked for; a timer set for the past comes in the next epoch."""

    def on_row(self, row, window, ctx):
        (ctx.event_timer if row["v"] else ctx.processing_timer)(row["at"])
        return CONTINUE

    def on_event_time(self, time, window, ctx):
        ctx.event_timer(time - 100)
        return FIRE

    def on_processing_time(self, time, window, ctx):
        ctx.processing_timer(time)
        return FIRE


def test_timers_set_for_the_past_do_not_hold_an_epoch_up():
    run = Epochs(job_of(ms.global_window(), trigger=Timers))
    run.run([at(20, 1), at(30, 0)])
    assert len(run.run([], 25)["out"]) == 1
    assert len(run.run([], 25, now=30)["out"]) == 2
    assert len(run.run([], 25, now=31)["out"]) == 2
    assert len(run.run(terminal=True, now=32)["out"]) == 2
    assert run.is_empty


class Wrong(ms.Trigger):
    def on_row(self, row, window, ctx):
        return {1: True, 2: None}.get(row["v"]) if row["v"] < 3 else 1 // 0


@pytest.mark.parametrize(("value", "code"), [(1, "STEP-131"), (2, "STEP-131"), (3, "RUN-001")])
def test_a_trigger_that_answers_something_else_or_fails(value, code):
    with pytest.raises(StepFailed) as caught:
        Epochs(job_of(ms.global_window(), timed=False, trigger=Wrong)).run([at(0, value)])
    assert (caught.value.step, caught.value.code) == ("w", code)


def test_an_evictor_that_returns_other_rows():
    evictor = ms.evictor.custom(lambda rows, window: [{"k": "z"}])
    run = Epochs(job_of(ms.global_window(), timed=False, trigger=ms.trigger.count(1), evictor=evictor))
    with pytest.raises(StepFailed, match="some of the rows"):
        run.run([at(0)])


class Remembering(ms.WindowFunction):
    kept = ms.ValueState(int, ttl=0.01)
    cleared = ms.ListState(int)

    def process(self, key, window, rows, ctx):
        yield {"kept": self.kept.value(), "cleared": self.cleared.get(), "now": ctx.now, "mark": ctx.watermark}
        self.kept.update(len(rows))

    def clear(self, ctx):
        self.cleared.add(ctx.window.start)


def test_state_of_the_key_outlives_windows_and_expires():
    schema = "kept long, cleared array<long>, now long, mark long"
    run = Epochs(job_of(TEN, close=lambda windowed: windowed.process(Remembering, schema=schema, id="w")))
    run.run([at(1), at(2), at(11)])
    made = run.run([], 9, now=5)["out"]
    assert made == [{"kept": None, "cleared": [], "now": 5, "mark": 9}]
    made = run.run([at(22)], 19, now=8)["out"]
    assert made == [{"kept": 2, "cleared": [0], "now": 8, "mark": 19}]
    made = run.run([], 29, now=18)["out"]
    assert made == [{"kept": None, "cleared": [0, 10], "now": 18, "mark": 29}]


class Outside(ms.WindowFunction):
    def process(self, key, window, rows, ctx):
        ctx.output("nowhere", {"k": "a"})


def test_an_output_that_was_not_declared():
    run = Epochs(job_of(TEN, close=lambda windowed: windowed.process(Outside, schema="k string", id="w")))
    run.run([at(1)])
    with pytest.raises(StepFailed, match="nowhere"):
        run.run([], 9)


@pytest.mark.parametrize(
    ("window", "options"),
    [(TEN, {"accumulation": "discarding"}), (ms.global_window(), {"trigger": ms.trigger.every("1s", time="event")})],
)
def test_a_row_without_event_time_names_the_window(window, options):
    job = ms.Job("no-time")
    timed = job.source("in", ms.memory([]), schema=SCHEMA)
    both = timed.event_time("at").union(job.source("other", ms.memory([]), schema=SCHEMA), id="both")
    both.key_by("k").window(window, **options).aggregate(n=ms.count(), id="w").sink("out", ms.collect("x"))
    with pytest.raises(StepFailed) as caught:
        Epochs(job).run([at(1)], source="other")
    assert caught.value.step == "w"


def test_a_global_window_ends_with_time():
    assert ms.GlobalWindow().max_timestamp == MAX_TIME
