"""The local engine: a run that is cut anywhere and resumed gives what a straight run gives."""

import pytest

import millstream as ms
from millstream.api.running.control import RunControl
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused, ExternalFailure, MillstreamError
from millstream.local.run import run
from millstream.plan.deployment import Deployment, EpochPolicy
from millstream.testing import ABORT, ADVANCE_CLOCK, WATERMARK, run_job

ROWS = [{"k": "abc"[i % 3], "at": 7 * i % 50 + i, "v": i} for i in range(40)]


class Running(ms.ProcessFunction):
    total = ms.ValueState(int)

    def process(self, row, ctx):
        total = (self.total.value() or 0) + row["v"]
        self.total.update(total)
        ctx.event_timer(row["at"] + 90)
        yield {"k": row["k"], "x": total}

    def on_timer(self, timestamp, ctx):
        yield {"k": ctx.key[0], "x": -timestamp}


def job_of(rows=(), *, name="resumed", parallelism=2):
    job = ms.Job(name, rows_per_epoch=6, parallelism=parallelism)
    stream = job.source("in", ms.memory(rows), schema="k string, at long, v long").event_time("at", max_delay="60ms")
    keyed = stream.key_by("k")
    keyed.process(Running, schema="k string, x long", id="running").sink("out", ms.collect(f"{name}/out"))
    windows = keyed.window(ms.sliding("10ms", "5ms")).aggregate(n=ms.count(), total=ms.sum("v"), id="w")
    windows.sink("windows", ms.collect(f"{name}/windows"))
    # A second level behind the windows.
    windows.key_by("k").aggregate(n=ms.sum("n"), emit="end", id="totals").sink("all", ms.collect(f"{name}/all"))
    return job


SINKS = ("out", "windows", "all")


def output(made):
    return {sink: sorted(map(str, made[sink])) for sink in SINKS}


def test_an_abort_anywhere_changes_nothing():
    straight = output(run_job(job_of(), {"in": ROWS}))
    for place in range(0, len(ROWS) + 1, 4):
        made = run_job(job_of(), {"in": [*ROWS[:place], ABORT(), *ROWS[place:]]})
        assert made.restarts == 1
        assert output(made) == straight


PLACES = [
    f"{place}:{nth}:raise"
    for place in ("staged", "prepared", "durable", "sink_published", "published")
    for nth in (1, 3, 7)
]


@pytest.mark.parametrize("place", PLACES)
def test_a_crash_in_the_epoch_protocol_changes_nothing(tmp_path, failpoints, place):
    name = f"crash-{place.replace(':', '-')}"
    straight = output(run_job(job_of(), {"in": ROWS}))
    plan = job_of(ROWS, name=name).compile(Deployment(checkpoint=str(tmp_path))).deployment
    failpoints(place)
    with pytest.raises(ExternalFailure):
        run(plan)
    failpoints("")
    result = run(plan)
    assert result.resumed_from is not None or place.startswith(("staged:1", "prepared:1"))
    made = {sink: collected(f"{name}/{sink}") for sink in SINKS}
    assert output(made) == straight
    assert run(plan).epochs == 0, "a finished job has nothing left to run"
    assert {sink: len(collected(f"{name}/{sink}")) for sink in SINKS} == {sink: len(made[sink]) for sink in SINKS}
    for sink in SINKS:
        clear(f"{name}/{sink}")


def test_only_the_newest_states_are_kept(tmp_path):
    deployment = Deployment(checkpoint=str(tmp_path), epochs=EpochPolicy(retained=2))
    run(job_of(ROWS, name="kept").compile(deployment).deployment)
    assert len(list((tmp_path / "local").glob("*/state-*"))) == 2


def interrupted(tmp_path, failpoints, name):
    plan = job_of(ROWS, name=name).compile(Deployment(checkpoint=str(tmp_path))).deployment
    failpoints("published:3:raise")
    with pytest.raises(ExternalFailure):
        run(plan)
    failpoints("")
    return plan


@pytest.mark.parametrize("how", ["delete", "empty", "cut"])
def test_state_that_cannot_be_read_is_refused(tmp_path, failpoints, how):
    plan = interrupted(tmp_path, failpoints, f"state-{how}")
    for path in (tmp_path / "local").glob("*/state-*"):
        if how == "delete":
            path.unlink()
        else:
            path.write_bytes(b"" if how == "empty" else path.read_bytes()[:-10])
    with pytest.raises(CheckpointRefused) as caught:
        run(plan)
    assert caught.value.code == "CKPT-009"


def test_another_parallelism_is_refused(tmp_path, failpoints):
    """Key groups would change owner and leave their state behind."""
    interrupted(tmp_path, failpoints, "rescaled")
    other = job_of(ROWS, name="rescaled", parallelism=3).compile(Deployment(checkpoint=str(tmp_path))).deployment
    with pytest.raises(CheckpointRefused) as caught:
        run(other)
    assert caught.value.code == "CKPT-008"


def test_a_lost_head_is_refused(tmp_path, failpoints):
    plan = interrupted(tmp_path, failpoints, "headless")
    (tmp_path / "millstream" / "head.json").unlink()
    with pytest.raises(CheckpointRefused) as caught:
        run(plan)
    assert caught.value.code == "CKPT-012"


def test_another_job_in_the_same_directory_is_refused(tmp_path):
    run(job_of(ROWS, name="mine").compile(Deployment(checkpoint=str(tmp_path))).deployment)
    with pytest.raises(CheckpointRefused, match="CKPT-005"):
        run(job_of(ROWS, name="yours").compile(Deployment(checkpoint=str(tmp_path))).deployment)


def test_unbounded_input_is_drained_when_asked(tmp_path):
    job = ms.Job("drained", rows_per_epoch=10)
    ticks = job.source("ticks", ms.rate(rows_per_second=1000)).event_time("timestamp")
    windows = ticks.with_columns(k="value % 2").key_by("k").window(ms.tumbling("1h")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("drained"))
    plan = job.compile(Deployment(checkpoint=str(tmp_path))).deployment
    epochs, clock, control = [], iter(range(0, 10_000_000, 100)), RunControl()

    def seen(epoch):
        epochs.append(epoch)
        if len(epochs) == 4:
            control.ask("drain")

    result = run(plan, clock=lambda: next(clock), listener=seen, control=control)
    assert result.ended == "drained"
    assert [epoch.terminal for epoch in epochs] == [False] * 4 + [True]
    assert result.rows_in > 0
    assert sum(row["n"] for row in collected("drained")) == result.rows_in
    assert run(plan).epochs == 0


def test_counts_balance_and_the_summary_adds_up():
    made = run_job(job_of(), {"in": ROWS})
    assert all(counts.is_balanced for counts in made.counts.values())
    assert sum(epoch.rows_in for epoch in made.epochs) == len(ROWS)
    assert [epoch.epoch for epoch in made.epochs] == list(range(len(made.epochs)))
    assert [epoch.terminal for epoch in made.epochs][-1]
    marks = [epoch.watermark for epoch in made.epochs]
    assert marks == sorted(marks)


def test_time_that_stands_still_ends_the_run_all_the_same():
    class Later(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.processing_timer(ctx.now + 50)
            yield {"k": "row"}

        def on_timer(self, timestamp, ctx):
            yield {"k": f"timer {timestamp}"}

    job = ms.Job("standing")
    rows = job.source("in", ms.memory([]), schema="k string")
    rows.key_by("k").process(Later, schema="k string", id="p").sink("out", ms.collect("x"))
    assert [row["k"] for row in run_job(job, {"in": [{"k": "a"}]})["out"]] == ["row"]
    made = run_job(job, {"in": [{"k": "a"}, ADVANCE_CLOCK("60ms")]})
    assert [row["k"] for row in made["out"]] == ["row", "timer 50"]


def test_the_problem_of_a_task_is_the_problem_of_the_run():
    job = ms.Job("broken")
    job.source("in", ms.memory([{"a": 0}]), schema="a long").select(b="1 / a", id="ratio").sink("out", ms.collect("x"))
    with pytest.raises(MillstreamError) as caught:
        job.run(local=True)
    assert caught.value.step == "ratio"


def test_an_explicit_watermark_fires_without_rows():
    made = run_job(job_of(), {"in": [{"k": "a", "at": 3, "v": 1}, WATERMARK(100), {"k": "a", "at": 200, "v": 1}]})
    first = [epoch.rows_out for epoch in made.epochs]
    assert first[1] == 3
