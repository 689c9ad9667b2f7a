"""One task of an epoch: staging, accounting, reports, and what is left when it fails."""

import msgspec
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.connectors.collect import sink as collect_sink
from millstream.connectors.json_values import batches_from_json
from millstream.errors import ExternalFailure, StepFailed
from millstream.jobmaster.run import Run
from millstream.local.native import LocalSide
from millstream.plan.deployment import Deployment
from millstream.plan.epoch import EpochPlan
from millstream.records.codecs import batch_to_text
from millstream.runtime.exchange.cells import DRIVER
from millstream.runtime.messages import RunIdentity, TaskInput, TaskReport
from millstream.runtime.program import LevelProgram
from millstream.runtime.task import run_source_task


def shaky(row):
    if row["a"] < 0:
        raise ValueError("negative")
    return {"a": row["a"] if row["a"] != 7 else "seven"}


def chain_job(on_error):
    job = ms.Job("chain")
    rows = job.source("in", ms.memory([]), schema="a long").filter("a != 100", id="filter")
    rows = rows.map(shaky, schema="a long", on_error=on_error, id="shaky").filter("a is not null", id="checked")
    rows.flat_map(lambda row: [row, row], schema="a long", id="twice").sink("out", ms.collect("x"))
    return job


VALUES = [{"a": a} for a in (1, -1, 7, 100, 2)]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_every_row_is_accounted_for(policy):
    made = Epochs(chain_job("skip" if policy == "skip" else ms.dead_letter(ms.collect("dead")))).run(VALUES)
    assert all(counts.is_balanced for counts in made.counts.values()), made.counts
    assert made.counts["filter"].filtered == 1
    assert made.counts["shaky"].rows_in == 4
    shaky_counts = made.counts["shaky"]
    assert (shaky_counts.passed, shaky_counts.skipped + shaky_counts.failed) == (2, 2)
    assert [row["a"] for row in made["out"]] == [1, 1, 2, 2]
    assert made.counts["out"].rows_in == 4
    letters = [(letter["step"], letter["record"]) for letter in made["shaky.dead"]]
    assert letters == ([] if policy == "skip" else [("shaky", '{"a": -1}'), ("shaky", '{"a": "seven"}')])


def test_a_bad_row_of_a_failing_step_stops_the_task():
    with pytest.raises(StepFailed) as caught:
        Epochs(chain_job("fail")).run(VALUES)
    assert caught.value.step == "shaky"


class Writer(collect_sink.CollectWriter):
    made = []

    def __init__(self, *given):
        super().__init__(*given)
        self.did = []
        Writer.made.append(self)

    def finish(self):
        self.did.append("finish")
        return super().finish()

    def abort(self):
        self.did.append("abort")


@pytest.fixture
def writers(monkeypatch):
    monkeypatch.setattr(collect_sink, "CollectWriter", Writer)
    Writer.made = []
    return Writer.made


def two_sinks():
    job = ms.Job("two")
    rows = job.source("in", ms.memory([]), schema="a long")
    rows.sink("plain", ms.collect("x"))
    rows.map(shaky, schema="a long", id="shaky").sink("shaken", ms.collect("y"))
    return job


def test_a_failing_task_aborts_every_writer(writers):
    with pytest.raises(StepFailed):
        Epochs(two_sinks()).run([{"a": 1}, {"a": -1}])
    assert [writer.did for writer in writers] == [["abort"]] * len(writers)
    assert writers


def test_a_finished_task_aborts_nothing_and_idle_sinks_open_no_writer(writers):
    made = Epochs(two_sinks()).run([{"a": 1}])
    assert [writer.did for writer in writers] == [["finish"], ["finish"]]
    assert set(made.reports[0].sinks) == {"plain", "shaken"}
    writers.clear()
    assert Epochs(two_sinks()).run([]).reports[0].sinks == {}
    assert writers == []


def test_a_task_that_is_given_up_aborts_its_writers(writers):
    """Spark closes the generator of a task it cancels."""
    job = ms.Job("given-up")
    rows = job.source("in", ms.memory([]), schema="a long")
    rows.sink("plain", ms.collect("x"))
    rows.key_by("a").reduce(lambda left, right: right, id="n").sink("counted", ms.collect("y"))
    run = Epochs(job, payload_bytes=1)
    program = LevelProgram(run.deployment, 0)
    plan = EpochPlan(epoch=0, now=0, sources={})
    body = run_body([{"a": 1}], run)
    cells = run_source_task(
        program, TaskInput(task=0, tasks=1, plan=plan, splits=[("in", "0", body)], run=RunIdentity(lineage="l"))
    )
    assert any(writers for _ in cells)
    cells.close()
    assert [writer.did for writer in writers] == [["abort"]]


def run_body(rows, run):
    schema = run.deployment.plan.vertices[0].vertex.head.outputs["main"]
    return [{"rows": batch_to_text(part)} for part in batches_from_json(rows, schema)]


def keyed_run():
    job = ms.Job("acknowledged", parallelism=2)
    job.source("in", ms.memory([]), schema="a long").key_by("a").aggregate(n=ms.count(), id="n").sink(
        "out", ms.collect("acknowledged")
    )
    return Run(job.compile(Deployment()).deployment, engine="local", side=LocalSide())


def reports(*tasks, plan=True):
    epoch = EpochPlan(epoch=0, now=0, sources={"in": {"at": 0}})
    return [
        msgspec.msgpack.encode(
            TaskReport(level=level, task=task, tasks=2, plan=epoch if plan and (level, task) == (0, 0) else None)
        )
        for level, task in tasks
    ]


ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("missing", ALL)
def test_an_epoch_without_all_its_reports_is_refused(missing):
    with pytest.raises(ExternalFailure) as caught:
        keyed_run().finish_epoch(reports(*(task for task in ALL if task != missing)))
    assert caught.value.code == "RUN-010"


@pytest.mark.parametrize("more", [(0, 0), (1, 1), (0, 2), (2, 0)])
def test_an_epoch_with_a_report_too_many_is_refused(more):
    """A task that reports twice would publish its rows twice."""
    with pytest.raises(ExternalFailure) as caught:
        keyed_run().finish_epoch(reports(*ALL, more))
    assert caught.value.code == "RUN-010"


def test_an_epoch_without_a_plan_or_without_reports_is_refused():
    for given in (reports(*ALL, plan=False), []):
        with pytest.raises(ExternalFailure, match="RUN-010"):
            keyed_run().finish_epoch(given)


def test_reports_are_taken_in_any_order():
    run = keyed_run()
    run.begin_epoch(0)
    assert run.finish_epoch(reports(*reversed(ALL))).epoch == 0
    assert run.result.epochs == 1


def test_reports_go_to_the_driver_only():
    run = Epochs(chain_job("skip"))
    plan = EpochPlan(epoch=0, now=0, sources={})
    cells = list(
        run_source_task(
            LevelProgram(run.deployment, 0),
            TaskInput(task=0, tasks=1, plan=plan, splits=[], run=RunIdentity(lineage="l")),
        )
    )
    assert [cell.level for cell in cells] == [DRIVER]
