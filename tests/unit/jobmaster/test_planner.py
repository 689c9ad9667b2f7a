"""Which epoch comes next: positions, watermarks, clock, wake-ups and the end."""

import dataclasses
import json

import msgspec
import pytest

import millstream as ms
from millstream.contract.source import Advance, Split
from millstream.jobmaster.planner.planner import Planner, PlannerState
from millstream.jobmaster.planner.shares import spread
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.deployment import Deployment
from millstream.plan.epoch import SavepointRequest, plan_from_json, times_for
from millstream.runtime.messages import TaskReport
from millstream.state.pages import NEVER


class Source:
    """Positions count rows; the test says how many there are."""

    def __init__(self, rows=0, *, finished=False):
        self.rows, self.finished, self.watermark, self.now = rows, finished, None, None
        self.credits, self.acknowledged, self.is_closed = [], [], False

    def initial(self):
        return 0

    def advance(self, start, credit):
        self.credits.append(credit)
        position = min(self.rows, start + credit)
        return Advance(
            position=position,
            finished=self.finished and position == self.rows,
            lag=self.rows - position,
            watermark=self.watermark,
            now=self.now,
        )

    def splits(self, start, end):
        return [Split("p", [start, end], end - start)]

    def acknowledge(self, position):
        self.acknowledged.append(position)

    def close(self):
        self.is_closed = True


class Clock:
    def __init__(self):
        self.time = 1000

    def __call__(self):
        return self.time


def deployment(*, sources=("a",), idle_after=None, delay=0.005, rows=100, union=True, **timing):
    job = ms.Job("planned", rows_per_epoch=rows, parallelism=2)
    streams = [job.source(name, ms.memory([]), schema="k string, at long") for name in sources]
    if union:
        whole = streams[0].union(*streams[1:], id="u") if len(streams) > 1 else streams[0]
        streams = [whole.event_time("at", max_delay=delay, idle_after=idle_after, id="t")]
    else:
        timing |= {"max_delay": delay, "idle_after": idle_after}
        streams = [s.event_time("at", id=f"t{i}", **timing) for i, s in enumerate(streams)]
    for number, stream in enumerate(streams):
        made = stream.key_by("k").window(ms.tumbling("10ms")).aggregate(n=ms.count(), id=f"w{number}")
        made.sink(f"out{number}", ms.collect("x"))
    return job.compile(Deployment()).deployment


class Planned:
    def __init__(self, sources=None, **options):
        self.sources = sources or {"a": Source()}
        self.clock = Clock()
        self.deployment = deployment(sources=tuple(self.sources), **options)
        self.planner = Planner(self.deployment, self.sources, self.clock, None)
        self.last = self.planner.initial()

    def next(self):
        plan = self.planner.next(self.last)
        is_new, self.last = plan != self.last, plan
        return plan if is_new else None

    def report(self, *, seen=None, event_due=None, processing=NEVER, level=0, task=0):
        report = TaskReport(
            level=level, task=task, tasks=1, newest=seen or {}, event_due=event_due or {}, processing_due=processing
        )
        self.planner.absorb(self.last, [report])

    def mark(self, step="t"):
        return self.last.watermarks[step]


def test_nothing_new_gives_the_same_plan():
    planned = Planned()
    assert planned.next() is None
    planned.clock.time += 10_000
    assert planned.next() is None
    planned.sources["a"].rows = 1
    assert planned.next().epoch == 0
    assert planned.next() is None


def test_a_first_epoch_that_must_run_has_no_rows_where_nothing_is_due():
    planned = Planned()
    first = planned.planner.first(planned.last)
    assert (first.epoch, first.sources, first.terminal) == (0, planned.last.sources, False)
    assert first.follows == planned.last.digest
    assert planned.planner.next(first) is first
    planned.sources["a"].rows = 1
    assert planned.planner.first(planned.last).sources == {"a": 1}


def test_credit_is_shared_and_bounds_an_epoch():
    planned = Planned({"a": Source(1000), "b": Source(20)}, rows=100)
    plan = planned.next()
    assert plan.sources == {"a": 50, "b": 20}
    assert planned.planner.waiting.lag == {"a": 950, "b": 0}
    assert planned.sources["a"].credits == [50]
    assert planned.next().sources == {"a": 100, "b": 20}


def test_the_watermark_is_the_minimum_over_partitions_and_never_goes_back():
    planned = Planned({"a": Source(500)}, rows=10)
    planned.next()
    assert planned.mark() == MIN_TIME
    planned.report(seen={"t": {"a/0": 100, "a/1": 50}})
    planned.next()
    assert planned.mark() == 50 - 5 - 1
    planned.report(seen={"t": {"a/1": 300}})
    planned.next()
    assert planned.mark() == 94
    planned.report(seen={"t": {"a/2": 7, "a/0": 20}})
    planned.next()
    assert planned.mark() == 94
    assert planned.last.previous == {"t": 94}


def test_a_source_that_has_shown_nothing_holds_back_until_it_is_finished():
    planned = Planned({"a": Source(100), "b": Source(0)}, rows=20)
    planned.next()
    planned.report(seen={"t": {"a/0": 100}})
    planned.next()
    assert planned.mark() == MIN_TIME
    planned.sources["b"].finished = True
    planned.next()
    planned.next()
    assert "b" in planned.last.finished
    assert planned.mark() == 94


def test_a_finished_source_no_longer_holds_back():
    planned = Planned({"a": Source(100), "b": Source(5, finished=True)}, rows=20)
    planned.next()
    planned.report(seen={"t": {"a/0": 100, "b/0": 10}})
    planned.next()
    assert planned.mark() == 94
    assert planned.last.finished == ["b"]


def test_a_source_that_ends_behind_its_last_rows_causes_an_epoch_although_the_others_are_silent():
    planned = Planned({"a": Source(5), "b": Source(5)}, union=False)
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 100}}, event_due={"w0": 200, "w1": 200})
    planned.next()
    assert planned.next() is None
    planned.sources["b"].finished = True
    plan = planned.next()
    assert (plan.finished, plan.sources) == (["b"], {"a": 5, "b": 5})
    plan = planned.next()
    assert plan.watermarks["t1"] == MAX_TIME, "what waits for it is due"
    assert not plan.terminal
    planned.report(event_due={"w0": 200, "w1": NEVER})
    assert planned.next() is None


def test_idle_partitions_and_idle_sources_do_not_hold_back():
    planned = Planned({"a": Source(1000), "b": Source(0)}, rows=20, idle_after="1s")
    planned.next()
    planned.report(seen={"t": {"a/0": 100, "a/1": 50}})
    planned.next()
    assert planned.mark() == MIN_TIME
    planned.clock.time += 1000
    planned.report(seen={"t": {"a/0": 200}})
    planned.next()
    planned.report(seen={"t": {"a/0": 200}})
    planned.next()
    assert planned.mark() == 194
    planned.clock.time += 5000
    planned.next()
    assert planned.mark() == 194, "all idle: the watermark stays"
    planned.report(seen={"t": {"a/1": 150}})
    planned.next()
    assert planned.mark() == 194


def test_an_explicit_watermark_replaces_event_times():
    planned = Planned({"a": Source(100)}, rows=10)
    planned.next()
    planned.report(seen={"t": {"a/0": 10_000}})
    planned.sources["a"].watermark = 77
    planned.next()
    assert planned.mark() == 77
    planned.sources["a"].watermark = 60
    planned.next()
    assert planned.mark() == 77


def test_the_clock_never_goes_back_and_may_be_scripted():
    planned = Planned({"a": Source(100)}, rows=10)
    assert planned.next().now == 1000
    planned.clock.time = 500
    assert planned.next().now == 1000
    planned.sources["a"].now = 5000
    assert planned.next().now == 5000


def test_the_end_of_all_input_is_one_terminal_epoch():
    planned = Planned({"a": Source(5, finished=True), "b": Source(3, finished=True)})
    assert not planned.next().terminal
    planned.report(seen={"t": {"a/0": 100, "b/0": 100}}, event_due={})
    plan = planned.next()
    assert plan.terminal
    assert plan.watermarks == {"t": MAX_TIME}
    assert plan.sources == {"a": 5, "b": 3}
    assert planned.next() is None
    times = times_for(plan, ["t"])
    assert (times.watermark, times.terminal, times.before) == (MAX_TIME, True, MIN_TIME)


def test_empty_bounded_input_ends_too():
    planned = Planned({"a": Source(0, finished=True)})
    assert planned.next().terminal
    assert planned.last.epoch == 0


def test_draining_reads_nothing_more():
    planned = Planned({"a": Source(1000)}, rows=10)
    planned.next()
    planned.planner.drain()
    plan = planned.next()
    assert (plan.terminal, plan.sources) == (True, {"a": 10})
    assert planned.next() is None


def test_a_due_event_timer_wakes_once():
    planned = Planned({"a": Source(10)}, idle_after="1s")
    planned.next()
    planned.report(seen={"t": {"a/0": 100, "a/1": 20}}, event_due={"w0": 50}, level=1)
    assert planned.next() is None
    planned.clock.time += 500
    planned.sources["a"].rows = 11
    planned.next()
    planned.report(seen={"t": {"a/0": 100}})
    assert planned.mark() == 14
    planned.clock.time += 500
    plan = planned.next()
    assert plan.watermarks == {"t": 94}, "the idle partition lets the watermark pass the timer"
    assert plan.sources == {"a": 11}
    planned.report(event_due={"w0": 109}, level=1)
    assert planned.next() is None


def test_a_due_processing_timer_wakes_once():
    planned = Planned({"a": Source(1)})
    planned.next()
    planned.report(processing=1500, level=1)
    planned.report(processing=3000, level=1, task=1)
    assert planned.next() is None
    planned.clock.time = 1500
    assert planned.next().now == 1500
    planned.report(processing=NEVER, level=1)
    assert planned.next() is None


def test_a_due_time_of_another_branch_causes_no_endless_epochs():
    planned = Planned({"a": Source(10), "b": Source(10)}, union=False)
    planned.next()
    planned.report(seen={"t0": {"a/0": 1000}, "t1": {"b/0": 20}})
    planned.report(event_due={"w0": 2000, "w1": 500}, level=1)
    for _ in range(5):
        assert planned.next() is None
    assert planned.planner.next(planned.last) is planned.last


def test_a_bounded_job_runs_its_due_timers_before_it_ends():
    planned = Planned({"a": Source(5, finished=True)})
    planned.next()
    planned.report(processing=0, level=1)
    assert not planned.next().terminal
    planned.report(processing=NEVER, level=1)
    assert planned.next().terminal


def aligned(**sources):
    return Planned(sources, rows=20, union=False, align="g", max_drift=0.05)


def test_a_source_that_is_ahead_is_not_read_until_the_slowest_has_come_up():
    planned = aligned(a=Source(1000), b=Source(1000))
    assert planned.next().paused == []
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    plan = planned.next()
    assert (plan.paused, plan.sources) == (["b"], {"a": 20, "b": 10})
    assert planned.sources["b"].credits == [10, 0]
    held = {each.partition: (each.is_holding, each.is_paused) for each in planned.planner.watermarks(plan, plan)}
    assert held == {"a/0": (True, False), "b/0": (True, True)}
    planned.report(seen={"t0": {"a/0": 150}})
    plan = planned.next()
    assert (plan.paused, plan.sources) == ([], {"a": 30, "b": 20})
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_what_waits_goes_on_when_the_slowest_has_ended():
    planned = aligned(a=Source(10), b=Source(1000))
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    plan = planned.next()
    assert (plan.paused, plan.sources) == (["b"], {"a": 10, "b": 10}), "the one that is behind has no rows"
    assert planned.next() is None
    planned.sources["a"].finished = True
    plan = planned.next()
    assert (plan.paused, plan.finished, plan.sources) == (["b"], ["a"], {"a": 10, "b": 10})
    assert planned.next().sources == {"a": 10, "b": 20}


def test_what_waits_goes_on_when_the_slowest_is_idle():
    planned = Planned(
        {"a": Source(10), "b": Source(1000)}, rows=20, union=False, align="g", max_drift=0.05, idle_after="500ms"
    )
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    assert planned.next().paused == ["b"]
    planned.report()
    assert planned.next() is None
    planned.clock.time += 500
    plan = planned.next()
    assert (plan.paused, plan.sources) == ([], {"a": 10, "b": 20})
    assert plan.watermarks["t1"] == 194, "the one that waited is not idle itself"


class Selective(Source):
    """Can leave partitions out."""

    def advance_without(self, start, credit, paused):
        self.credits.append((credit, list(paused)))
        return Advance(position=start + 1)


def test_single_partitions_are_left_out_where_the_source_can():
    planned = aligned(a=Selective(1000), b=Source(1000))
    planned.next()
    planned.report(seen={"t0": {"a/p": 100, "a/q/1": 200}, "t1": {"b/0": 120}})
    plan = planned.next()
    assert (plan.paused, plan.sources) == (["a/q/1"], {"a": 11, "b": 20})
    assert planned.sources["a"].credits[1] == (10, ["q/1"])
    paused = {each.partition: each.is_paused for each in planned.planner.watermarks(plan, plan)}
    assert paused == {"a/p": False, "a/q/1": True, "b/0": False}


def test_a_source_that_waits_does_not_look_finished():
    planned = aligned(a=Source(1000), b=Source(11, finished=True))
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    assert planned.next().finished == []
    planned.report(seen={"t0": {"a/0": 200}})
    assert planned.next().finished == ["b"]


def test_draining_and_savepoints_do_not_wait_for_alignment():
    planned = aligned(a=Source(10), b=Source(1000))
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    planned.planner.export(SavepointRequest(id="s", path="/s"))
    assert (planned.next().savepoint.id, planned.last.paused) == ("s", ["b"])
    planned.planner.drain()
    assert planned.next().terminal


def test_a_run_that_resumes_decides_as_one_that_went_on():
    planned = aligned(a=Source(1000), b=Source(1000))
    planned.next()
    planned.report(seen={"t0": {"a/0": 100}, "t1": {"b/0": 200}})
    stored = json.loads(json.dumps(msgspec.to_builtins(planned.planner.state)))
    again = Planner(planned.deployment, planned.sources, planned.clock, msgspec.convert(stored, PlannerState))
    assert again.next(planned.last) == planned.planner.next(planned.last)


@pytest.mark.parametrize("how", ["resumed", "restored"])
def test_the_time_before_a_run_makes_no_partition_idle(how):
    planned = Planned({"a": Source(1000)}, rows=20, idle_after="1s")
    planned.next()
    planned.report(seen={"t": {"a/0": 100, "a/1": 50}})
    planned.clock.time += 100_000
    known = planned.planner.state
    again = Planner(planned.deployment, planned.sources, planned.clock, known if how == "resumed" else None)
    if how == "restored":
        again.state = known
        again.start_from(planned.last)
        planned.last = again.initial()
    planned.planner = again
    planned.next()
    planned.report(seen={"t": {"a/0": 200}})
    planned.next()
    assert planned.mark() == 44, "one partition was read again, the other is still expected"
    planned.clock.time += 500
    planned.next()
    planned.report(seen={"t": {"a/0": 300}})
    planned.clock.time += 500
    planned.next()
    assert planned.mark() == 294


def test_a_replayed_epoch_gets_the_same_tasks():
    planned = Planned({"a": Source(50), "b": Source(30)}, rows=100)
    start, end = planned.last, planned.next()
    made = planned.planner.tasks(start, end, "l")
    logged = [plan_from_json(json.loads(json.dumps(plan.to_json()))) for plan in (start, end)]
    assert logged == [start, end]
    assert [plan.digest for plan in logged] == [start.digest, end.digest]
    again = Planner(planned.deployment, {"a": Source(), "b": Source()}, Clock(), PlannerState(started=0))
    assert msgspec.msgpack.encode(again.tasks(*logged, "l")) == msgspec.msgpack.encode(made)
    assert [task.task for task in made] == list(range(len(made)))
    assert {task.tasks for task in made} == {len(made)}


def test_what_the_planner_learned_survives_json():
    planned = Planned({"a": Source(10)})
    planned.next()
    planned.report(seen={"t": {"a/0": 100}}, event_due={"w0": NEVER}, level=1)
    stored = json.loads(json.dumps(msgspec.to_builtins(planned.planner.state)))
    assert msgspec.convert(stored, PlannerState) == planned.planner.state


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
@pytest.mark.parametrize("weights", [[], [5], [1] * 10, [0, 0, 0], [100, 1, 1, 1], [1, 1, 1, 100], [10] * 6])
def test_spreading_keeps_order_and_loses_nothing(tasks, weights):
    splits = [("s", Split(str(i), i, rows)) for i, rows in enumerate(weights)]
    shares = spread(splits, tasks)
    assert [split for share in shares for split in share] == splits
    assert 1 <= len(shares) <= max(1, min(tasks, len(splits)))
    if weights == [10] * 6 and tasks in {1, 2, 3}:
        assert {len(share) for share in shares} == {6 // tasks}


def test_what_is_open_behind_a_source_that_ended_is_closed_though_no_row_comes():
    planned = Planned({"a": Source(5, finished=True), "b": Source(3)}, union=False)
    planned.next()
    planned.report(seen={"t0": {"a/p": 100}}, event_due={"w0": 109})
    plan = planned.next()
    assert (plan.watermarks["t0"], plan.terminal) == (MAX_TIME, False)
    planned.report(event_due={"w0": NEVER})
    assert planned.next() is None
    planned.sources["b"].finished = True
    assert planned.next().terminal


def test_the_end_of_the_last_source_is_the_terminal_epoch():
    planned = Planned({"a": Source(5, finished=True)})
    planned.next()
    planned.report(seen={"t": {"a/p": 100}}, event_due={"w0": 109})
    plan = planned.next()
    assert (plan.terminal, plan.previous["t"], plan.watermarks["t"]) == (True, MIN_TIME, MAX_TIME)


class Told(Source):
    """Says what a test wants it to say."""

    def __init__(self, rows=0, **said):
        super().__init__(rows)
        self.said = said

    def advance(self, start, credit):
        return dataclasses.replace(super().advance(start, credit), **self.said)


def test_a_source_that_says_when_to_ask_again_is_left_alone_until_then():
    planned = Planned({"a": Told(10, not_before=5000)})
    assert planned.next().sources == {"a": 10}, "what it gave with that answer is read at once"
    planned.sources["a"].rows = 20
    assert planned.next() is None
    assert len(planned.sources["a"].credits) == 1
    planned.clock.time = 5000
    assert planned.next().sources == {"a": 20}


def test_rows_that_are_jumped_over_stand_in_the_plan_once():
    planned = Planned({"a": Told(10, dropped={"data_loss": 7}, not_before=5000)})
    plan = planned.next()
    assert plan.dropped == {"a": {"data_loss": 7}}
    assert plan_from_json(plan.to_json()).digest == plan.digest
    planned.sources["a"].said = {"not_before": 5000}
    planned.report(event_due={"w0": NEVER}, processing=1000, level=1)
    assert planned.next().dropped == {}, "an epoch for a timer jumps over nothing"


def test_plans_without_dropped_rows_keep_their_digest():
    plan = Planned({"a": Source(10)}).next()
    assert "dropped" in plan.to_json()
    older = {name: value for name, value in plan.to_json().items() if name != "dropped"}
    assert plan_from_json(older).digest == plan.digest


def test_a_partition_in_which_rows_wait_is_not_idle():
    source = Told(10, partitions=("p", "q"), drained=("p", "q"))
    planned = Planned({"a": source}, idle_after="500ms")
    planned.next()
    planned.report(seen={"t": {"a/p": 100, "a/q": 900}})
    planned.clock.time += 10_000
    source.said["drained"] = ("q",)
    source.rows = 20
    assert planned.next().watermarks["t"] == 94, "p was not read for long, but rows wait there"
    planned.report(seen={"t": {"a/q": 1000}})
    source.said["drained"] = ("p",)
    source.rows = 30
    planned.clock.time += 10_000
    planned.next()
    assert planned.mark() == 994, "nothing waits in p: it is idle, and q is not"


def test_a_source_that_showed_nothing_is_idle_only_when_all_is_drained():
    sources = {"a": Source(10), "b": Told(0, partitions=("p", "q"), drained=("q",))}
    planned = Planned(sources, idle_after="500ms")
    planned.next()
    planned.report(seen={"t": {"a/0": 100}})
    planned.clock.time += 400
    sources["a"].rows = 20
    planned.next()
    planned.report(seen={"t": {"a/0": 200}})
    planned.clock.time += 400
    sources["a"].rows = 30
    assert planned.next().watermarks["t"] == MIN_TIME
    planned.report(seen={"t": {"a/0": 200}})
    sources["b"].said["drained"] = ("p", "q")
    sources["a"].rows = 40
    assert planned.next().watermarks["t"] == 194


def test_watermarks_that_a_source_states_by_partition():
    source = Told(10, partitions=("p", "q"), watermarks={"p": 500})
    planned = Planned({"a": source})
    planned.next()
    assert planned.mark() == MIN_TIME, "q has shown nothing and states nothing"
    planned.report(seen={"t": {"a/p": 9_000, "a/q": 300}})
    source.rows = 20
    planned.next()
    assert planned.mark() == 294
    source.rows, source.said["watermarks"] = 30, {"p": 500, "q": MAX_TIME}
    planned.next()
    assert planned.mark() == 500


def test_what_waits_in_partitions_is_told():
    planned = Planned({"a": Told(10, lags={"p": 3}, blocked={"q": "an open transaction"})})
    planned.next()
    assert planned.planner.waiting.lags == {"a/p": 3}
    assert planned.planner.waiting.blocked == {"a/q": "an open transaction"}
