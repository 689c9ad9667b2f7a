"""How credits follow the rate, and what becomes of rows beyond a capacity: decided in the plan, the same in a replay."""

import dataclasses
import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobmaster.test_planner import Clock, Source

import millstream as ms
from millstream.contract.source import Ahead
from millstream.errors import InvalidStep, StepFailed
from millstream.jobmaster.planner.credits import FIRST, Credits, next_credit, used_buffers
from millstream.jobmaster.planner.learned import PlannerState
from millstream.jobmaster.planner.planner import Planner
from millstream.model.counts import StepCounts
from millstream.model.flow import FlowControl
from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.plan.epoch import plan_from_json
from millstream.runtime.messages import TaskReport


def deployment(flow=None, *, memory=None, credit=None, rows=1000):
    job = ms.Job("flow", rows_per_epoch=rows)
    stream = job.source("a", ms.memory([]), schema="k string, n long", flow=flow, credit=credit)
    stream.sink("out", ms.collect("flow"))
    return job.compile(Deployment(memory=memory or MemoryBudget())).deployment


def report(rows, size=0):
    counts = {"a": StepCounts(rows_in=rows, passed=rows, rows_out=rows)}
    return TaskReport(level=0, task=0, tasks=1, counts=counts, read_bytes={"a": size})


# What may be said


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"strategy": "throw"}, "FLOW-001"),
        ({"strategy": "drop"}, "FLOW-001"),
        ({"capacity_rows": 0}, "FLOW-001"),
        ({"capacity_bytes": 1.5}, "FLOW-001"),
        ({"key": "k"}, "FLOW-001"),
        ({"strategy": "ACK_WINDOW", "window": 2}, "FLOW-002"),
        ({"target": "soon"}, "STEP-004"),
        ({"target": 0}, "STEP-003"),
    ],
)
def test_what_makes_no_sense_is_refused(given, code):
    with pytest.raises(InvalidStep) as refused:
        FlowControl(**given)
    assert refused.value.code.partition("-")[0] in {"FLOW", "STEP"}
    assert refused.value.code == code or code == "STEP-003"


@pytest.mark.parametrize("name", ["BLOCKING_QUEUE", "CREDIT_BASED", "ACK_WINDOW", "buffer"])
def test_names_that_others_have_for_it_are_known(name):
    assert FlowControl(name, target="2s").strategy == "buffer"


def test_a_key_that_is_no_column_is_refused():
    with pytest.raises(InvalidStep) as refused:
        deployment(FlowControl("latest", capacity_rows=1, key="nobody"))
    assert refused.value.step == "a"
    with pytest.raises(InvalidStep):
        deployment("drop")


def test_it_survives_the_declarative_form_and_stands_in_the_plan():
    job = ms.Job("flow")
    flow = FlowControl("latest", capacity_rows=10, target=dt.timedelta(seconds=2), key=["k"])
    job.source("a", ms.memory([]), schema="k string, n long", flow=flow).sink("out", ms.collect("flow"))
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    assert "a: 2000000 rows per epoch, epochs of 2s, latest behind 10 rows" in again.explain("deployment")


# Credits


def test_without_a_target_the_credit_stays():
    credits = Credits(deployment(), PlannerState(started=0))
    assert credits.credit("a") == 1000
    credits.learn([report(1000)], 60.0)
    assert credits.credit("a") == 1000


def test_a_credit_grows_to_the_target_and_is_cut_at_once():
    state = PlannerState(started=0)
    credits = Credits(deployment(FlowControl(target="1s"), rows=10_000_000), state)
    seen = [int(credits.credit("a"))]
    for _ in range(12):
        rows = int(credits.credit("a"))
        credits.learn([report(rows)], 0.1 + rows / 200_000)
        seen.append(int(credits.credit("a")))
    assert seen[:3] == [FIRST, 2 * FIRST, 4 * FIRST], "at most doubled"
    assert 150_000 < seen[-1] <= 200_000
    credits.learn([report(seen[-1])], 10.0)
    assert credits.credit("a") == seen[-1] // 10
    again = Credits(deployment(FlowControl(target="1s"), rows=10_000_000), state)
    assert again.credit("a") == credits.credit("a"), "what was learned is kept"


def test_little_to_read_says_nothing_about_how_much_could_be_read():
    credits = Credits(deployment(FlowControl(target="1s"), rows=10_000_000), PlannerState(started=0))
    credits.learn([report(FIRST)], 0.5)
    grown = credits.credit("a")
    for _ in range(20):
        credits.learn([report(3)], 0.4)
    assert credits.credit("a") == grown


@given(
    credit=st.integers(1, 10**7),
    rows=st.integers(0, 10**7),
    seconds=st.floats(1e-4, 1e3),
    target=st.floats(0.01, 60),
    rate=st.floats(0, 1e9),
)
def test_a_credit_is_never_nothing_and_never_more_than_doubled(credit, rows, seconds, target, rate):
    given_next = next_credit(credit, rows, seconds, target, rate=rate)
    assert 1 <= given_next <= max(2 * credit, rows)
    if seconds > target and rows:
        assert given_next <= max(1, rows)


def test_the_size_of_rows_bounds_an_epoch():
    memory = MemoryBudget(epoch_bytes=100_000)
    credits = Credits(deployment(memory=memory), PlannerState(started=0))
    assert (credits.credit("a"), credits.credit("a").bytes) == (1000, 100_000)
    credits.learn([report(1000, size=1_000_000)], 1.0)
    assert credits.credit("a") == 100
    smaller = Credits(deployment(FlowControl(capacity_bytes=10_000)), PlannerState(started=0))
    smaller.learn([report(1000, size=1_000_000)], 1.0)
    assert (smaller.credit("a"), smaller.credit("a").bytes) == (10, 10_000)


def test_a_capacity_bounds_what_an_epoch_buffers():
    assert Credits(deployment(FlowControl(capacity_rows=7)), PlannerState(started=0)).credit("a") == 7


# Strategies


class Planned:
    def __init__(self, source, flow, **options):
        self.source = source
        self.planner = Planner(deployment(flow, **options), {"a": source}, Clock(), None)
        self.last = self.planner.initial()

    def next(self):
        plan = self.planner.next(self.last)
        assert plan_from_json(plan.to_json()).digest == plan.digest
        self.last = plan
        return plan


def test_drop_reads_what_it_may_and_jumps_over_the_rest():
    planned = Planned(Source(1000), FlowControl("drop", capacity_rows=50), credit=100)
    plan = planned.next()
    assert (plan.sources, plan.jumps, plan.dropped) == ({"a": 100}, {"a": 1000}, {"a": {"drop": 900}})
    assert plan.reached == {"a": 1000}
    assert planned.planner.next(plan) is plan, "nothing is left"
    planned.source.rows = 1120
    plan = planned.next()
    assert (plan.sources, plan.jumps, plan.dropped) == ({"a": 1100}, {}, {}), "20 rows may wait"
    tasks = planned.planner.tasks(dataclasses_plan(1000), plan, None)
    assert [body for task in tasks for _, _, body in task.splits] == [[1000, 1100]]


def test_rows_that_come_while_it_jumps_are_not_taken_off_the_dropped():
    class Growing(Source):
        def advance(self, start, credit):
            asked = super().advance(start, credit)
            self.rows += 1000
            return asked

    planned = Planned(Growing(1000), FlowControl("drop", capacity_rows=50), credit=100)
    plan = planned.next()
    assert (plan.sources, plan.jumps, plan.dropped) == ({"a": 100}, {"a": 1000}, {"a": {"drop": 900}})


def dataclasses_plan(position):
    from millstream.plan.epoch import EpochPlan

    return EpochPlan(epoch=0, now=0, sources={"a": 100}, jumps={"a": position})


def test_a_terminal_epoch_and_one_without_rows_stand_behind_the_jump():
    planned = Planned(Source(1000), FlowControl("drop", capacity_rows=50), credit=100)
    planned.next()
    planned.planner.drain()
    plan = planned.next()
    assert (plan.terminal, plan.sources, plan.jumps) == (True, {"a": 1000}, {})


def test_latest_takes_everything_and_says_so():
    planned = Planned(Source(1000), FlowControl("latest", capacity_rows=50, key="k"), credit=100)
    plan = planned.next()
    assert (plan.sources, plan.conflated, plan.dropped) == ({"a": 1000}, ["a"], {})
    planned.source.rows = 1120
    assert planned.next().conflated == []


def test_error_fails_once_too_much_waits():
    planned = Planned(Source(130), FlowControl("error", capacity_rows=30), credit=100)
    assert planned.next().sources == {"a": 100}
    planned.source.rows = 500
    with pytest.raises(StepFailed) as failed:
        planned.next()
    assert (failed.value.code, failed.value.found, failed.value.known) == ("FLOW-004", "300", "30")


def test_a_source_that_cannot_tell_what_waits_cannot_be_cut_short():
    class Silent(Source):
        def advance(self, start, credit):
            return dataclasses.replace(super().advance(start, credit), lag=None)

    with pytest.raises(StepFailed) as failed:
        Planned(Silent(10), FlowControl("drop", capacity_rows=1)).next()
    assert failed.value.code == "FLOW-003"


# Rows


ROWS = [{"k": f"k{number % 3}", "n": number} for number in range(20)]


def run(flow, tmp_path, failpoints=None, **options):
    job = ms.Job("flow", rows_per_epoch=5, parallelism=1)
    stream = job.source("a", ms.memory(ROWS), schema="k string, n long", flow=flow)
    stream.sink("out", ms.files(tmp_path / "out", format="json"))
    result = job.run(local=True, checkpoint=str(tmp_path / "c"), **options)
    return result, [row["n"] for row in ms.read_files(tmp_path / "out").to_pylist()]


def test_dropped_rows_are_counted(tmp_path):
    result, rows = run(FlowControl("drop", capacity_rows=3), tmp_path)
    assert rows == [0, 1, 2, 3, 4]
    assert result.dropped == {"a": {"drop": 15}}


def test_the_newest_row_of_each_key_stays(tmp_path):
    result, rows = run(FlowControl("latest", capacity_rows=3, key="k"), tmp_path)
    assert sorted(rows) == [17, 18, 19]
    assert result.dropped == {"a": {"latest": 17}}
    assert result.counts["a"].rows_in == 3


def test_without_a_key_one_row_stays(tmp_path):
    _, rows = run(FlowControl("latest", capacity_rows=3), tmp_path)
    assert rows == [19]


@pytest.mark.parametrize("strategy", ["drop", "latest"])
def test_a_replay_repeats_what_was_decided(tmp_path, failpoints, strategy):
    flow = FlowControl(strategy, capacity_rows=3, key="k" if strategy == "latest" else ())
    failpoints("durable:1:raise")
    with pytest.raises(Exception, match="durable"):
        run(flow, tmp_path)
    failpoints("")
    _, rows = run(flow, tmp_path)
    assert sorted(rows) == ([0, 1, 2, 3, 4] if strategy == "drop" else [17, 18, 19])


def test_a_job_file_says_it_too(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "job: flow\nsteps:\n"
        "  - source: a\n    from: {rate: {rows_per_second: 10}}\n    flow: {strategy: drop, capacity_rows: 1000, target: 1s}\n"
        "  - sink: out\n    to: {collect: {name: flow}}\n"
    )
    flow = ms.load_job(path).compile(Deployment()).deployment.flow[0]
    assert (flow.strategy, flow.capacity_rows, flow.target) == ("drop", 1000, 1000)
    path.write_text(path.read_text().replace("target: 1s", "goal: 1s"))
    with pytest.raises(InvalidStep) as refused:
        ms.load_job(path)
    assert refused.value.code == "DECL-004"


# Buffers


def test_buffers_are_what_is_admitted_and_fetched_ahead_of_what_there_is_room_for():
    flow = FlowControl(capacity_bytes=1000)
    assert used_buffers(deployment(flow), [report(5, size=600)], {}) == {"a": 0.6}
    assert used_buffers(deployment(flow), [report(5, size=600)], {"a": Ahead(900, 4000)}) == {"a": 0.3}
