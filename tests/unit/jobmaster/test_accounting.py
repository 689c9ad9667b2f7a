"""Every row is accounted for in every epoch, and no more become dead letters than was agreed."""

import pytest

import millstream as ms
from millstream.errors import InvalidStep, MillstreamError, StepFailed
from millstream.jobmaster.run import Run
from millstream.local.native import LocalSide
from millstream.local.run import _LocalLoop
from millstream.model.counts import StepCounts
from millstream.plan.deployment import Deployment


def job_of(rows, **limits):
    job = ms.Job("letters", rows_per_epoch=50)
    dead = ms.dead_letter(ms.collect("letters-dead"), **limits)
    source = job.source("in", ms.memory([{"n": n} for n in rows]), schema="n long")
    source.map(lambda row: {"n": 10 // row["n"]}, schema="n long", on_error=dead, id="divide").sink(
        "out", ms.collect("letters-out")
    )
    return job


def test_a_step_that_loses_rows_ends_the_run_before_anything_is_published(monkeypatch, tmp_path):
    real = StepCounts.is_balanced

    monkeypatch.setattr(StepCounts, "is_balanced", property(lambda counts: counts.rows_out != 3 and real.fget(counts)))
    with pytest.raises(MillstreamError) as failed:
        job_of([1, 2, 5]).run(local=True, checkpoint=str(tmp_path))
    assert failed.value.code == "RUN-030"
    assert "rows_in=3" in failed.value.found


def test_dead_letters_up_to_a_number_are_agreed():
    assert job_of([0, 0, 1], max_rows=2).run(local=True).counts["divide"].failed == 2
    with pytest.raises(StepFailed) as failed:
        job_of([0, 0, 0, 1], max_rows=2).run(local=True)
    assert (failed.value.code, failed.value.step) == ("RUN-031", "divide")
    assert (failed.value.found, failed.value.known) == ("3 rows", "at most 2")


def test_they_are_counted_over_the_epochs_of_a_run():
    with pytest.raises(StepFailed) as failed:
        job_of([*([1] * 49), 0, *([1] * 49), 0], max_rows=1).run(local=True)
    assert failed.value.found == "2 rows"


def test_an_epoch_that_an_engine_runs_once_more_counts_once(tmp_path):
    """It is durable: refused now, it could never be got over."""
    job = job_of([0, 1], max_rows=1)
    deployment = job.compile(Deployment(checkpoint=str(tmp_path))).deployment
    with Run(deployment, engine="local", side=LocalSide()) as first:
        loop = _LocalLoop(deployment, first)
        plan = first.plan_next(first.planner.initial())
        first.begin_epoch(plan.epoch)
        reports = loop._reports(plan)
        first.finish_epoch(reports, loop._saved(plan.epoch))
    assert first.result.counts["divide"].failed == 1
    with Run(deployment, engine="local", side=LocalSide(), result=first.result) as second:
        second.begin_epoch(plan.epoch)
        assert second.finish_epoch(reports).epoch == plan.epoch
    assert second.result.counts["divide"].failed == 1


def test_dead_letters_up_to_a_share_are_agreed():
    assert job_of([0] * 40, max_ratio=0.1).run(local=True).counts["divide"].failed == 40, "too few rows to say"
    assert job_of([*([1] * 95), *([0] * 5)], max_ratio=0.05).run(local=True).rows_in == 100
    with pytest.raises(StepFailed) as failed:
        job_of([*([1] * 94), *([0] * 6)], max_ratio=0.05).run(local=True)
    assert (failed.value.found, failed.value.known) == ("6.0% of 100 rows", "at most 5.0%")


@pytest.mark.parametrize("limits", [{"max_rows": -1}, {"max_rows": 1.5}, {"max_ratio": 1.1}, {"max_ratio": "1%"}])
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(InvalidStep):
        job_of([], **limits)


def test_limits_survive_the_declarative_form(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "job: letters\nsteps:\n"
        "  - source: a\n    from: {rate: {rows_per_second: 10}}\n"
        "    on_error: {dead_letter: {collect: {name: d}}, max_rows: 3, max_ratio: 0.5}\n"
        "  - sink: out\n    to: {collect: {name: o}}\n"
    )
    job = ms.load_job(path)
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    limits = next(step.operation.letters for step in again.model.steps if step.id == "a.dead")
    assert (limits.max_rows, limits.max_ratio) == (3, 0.5)
