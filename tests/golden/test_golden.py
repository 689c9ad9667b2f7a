"""Every case gives its rows however it is run: straight, cut into epochs, crashed and restarted, suspended and restored at
another parallelism; on both engines, and begun on one and finished on the other."""

import dataclasses
import shutil
from collections.abc import Mapping

import pytest
from tests.golden.cases import Case, Row, check, load_cases
from tests.golden.combine import combined, combined_scripts, output_of, partitions, smallest
from tests.golden.lineages import Lineages

import millstream as ms
from millstream.checkpoint import failpoint
from millstream.connectors.memory.spec import MARK
from millstream.errors import MillstreamError
from millstream.plan.deployment import STATE_BACKENDS
from millstream.testing import ABORT, ADVANCE_CLOCK, run_job

CASES = load_cases()
GOOD = [case for case in CASES if case.error is None]
REFUSED = [case for case in CASES if case.error is not None]
CRASHES = ("staged", "prepared", "durable", "sink_published", "published")
GROUPS = {
    "plain": [case for case in GOOD if not case.has_clock],
    "clock": [case for case in GOOD if case.has_clock],
}


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named(GOOD)
def test_straight(case):
    output = run_job(case.job(), case.scripts(), memory=case.memory)
    check(case, output.sinks)
    unbalanced = {step: counts for step, counts in output.counts.items() if not counts.is_balanced}
    assert not unbalanced


@named(GOOD)
def test_cut_crashed_and_restarted(case, tmp_path, monkeypatch):
    number = CASES.index(case)
    place = CRASHES[number % len(CRASHES)]
    output = crashing(
        monkeypatch,
        f"{place}:2:raise",
        lambda: run_job(
            case.job(),
            case.scripts(with_abort),
            parallelism=3,
            rows_per_epoch=many(case) or 1 + number % 3,
            checkpoint=tmp_path,
            memory=case.memory,
            state_backend=STATE_BACKENDS[number % 2],
        ),
    )
    check(case, output.sinks)


@named(GOOD)
def test_one_page_at_a_time(case, tmp_path):
    """No page is held longer than it must be, and every page that is kept between epochs is the stored one."""
    memory = dataclasses.replace(case.memory, state_bytes=1, page_bytes=200)
    rows = many(case) or 1 + CASES.index(case) % 3
    output = run_job(
        case.job(),
        case.scripts(with_abort),
        rows_per_epoch=rows,
        checkpoint=tmp_path,
        memory=memory,
        state_backend="memory",
    )
    check(case, output.sinks)


@named(GOOD)
def test_suspended_and_restored_at_another_parallelism(case, tmp_path):
    """What the old lineage published up to the savepoint and what the new one publishes are the rows of the case."""
    number = CASES.index(case)
    rows = many(case) or 1 + number % 3
    with Lineages(case.job(), case.scripts(), tmp_path, rows_per_epoch=rows, memory=case.memory) as lineages:
        savepoint = lineages.suspended("local", "old", parallelism=2, after=(1 + number % 3) / 4)
        shutil.rmtree(tmp_path / "old")
        lineages.finished("local", "new", parallelism=3, savepoint=savepoint)
        check(case, lineages.output())


@named(GOOD)
def test_begun_in_chains_and_finished_without(case, tmp_path):
    """Chains are no part of what is stored: a checkpoint is resumed whichever way its steps are fused."""
    number = CASES.index(case)
    rows = many(case) or 1 + number % 3
    with Lineages(case.job(), case.scripts(), tmp_path, rows_per_epoch=rows, memory=case.memory) as lineages:
        lineages.chaining = bool(number % 2)
        lineages.suspended("local", "checkpoint", parallelism=2, after=(1 + number % 3) / 4)
        lineages.chaining = not lineages.chaining
        lineages.finished("local", "checkpoint", parallelism=2)
        check(case, lineages.output())


@named(REFUSED)
def test_refused(case):
    with pytest.raises(MillstreamError) as caught:
        run_job(case.job(), case.scripts())
    assert caught.value.code == case.error


@pytest.mark.parametrize("group", GROUPS)
def test_combined(group):
    """The job that Spark runs below gives every case its rows on the local engine too."""
    check_all(GROUPS[group], run_job(*combined_run(group, pieces=1), memory=smallest(GROUPS[group])).sinks)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", GROUPS)
def test_spark_straight(group, spark):
    output = run_job(*combined_run(group, pieces=1), engine="spark", parallelism=2, memory=smallest(GROUPS[group]))
    check_all(GROUPS[group], output.sinks)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_crashed_restarted_suspended_and_restored(spark, tmp_path, monkeypatch):
    """The crash comes when an epoch is durable and nothing of it is published; the restarted run goes on a little."""
    job, inputs = combined_run("plain", pieces=5)
    shares = iter((1.0, 0.2))
    memory = smallest(GROUPS["plain"])
    with Lineages(job, inputs, tmp_path, memory=memory, state_backend="memory") as lineages:
        savepoint = crashing(
            monkeypatch,
            "durable:2:raise",
            lambda: lineages.suspended("spark", "old", parallelism=2, after=next(shares)),
        )
        shutil.rmtree(tmp_path / "old")
        lineages.finished("spark", "new", parallelism=3, savepoint=savepoint)
        check_all(GROUPS["plain"], lineages.output())


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_from_one_engine_to_the_other_and_back(spark, tmp_path):
    """Timers, expiring state and the clock move to Spark and back. There the planner fails once between two epochs."""
    job, inputs = combined_run("clock", pieces=2)
    inputs["aborting"] = ms.memory([*[dict(ADVANCE_CLOCK(0))] * 6, dict(ABORT())])
    with Lineages(with_source(job, "aborting"), inputs, tmp_path) as lineages:
        first = lineages.suspended("local", "old", parallelism=2, after=0.25)
        assert lineages.aborts == 0
        second = lineages.suspended("spark", "new", parallelism=3, after=0.25, savepoint=first)
        assert lineages.aborts == 1
        lineages.finished("local", "last", parallelism=2, savepoint=second)
        check_all(GROUPS["clock"], lineages.output())


def with_source(job, name):
    job.source(name, ms.memory([]), schema="n long").sink(f"{name}.out", ms.collect(name))
    return job


def combined_run(group, *, pieces):
    cases = GROUPS[group]
    columns = partitions(cases)
    scripts = combined_scripts(cases, pieces=pieces)
    inputs = {name: ms.memory(script, partition_by=columns.get(name)) for name, script in scripts.items()}
    return combined(f"golden-{group}", cases), inputs


def check_all(cases: list[Case], output: Mapping[str, list[Row]]) -> None:
    for case in cases:
        check(case, output_of(case, output))


def crashing(monkeypatch, where, run):
    """Run with a crash at a failpoint, then again from the checkpoint."""
    failpoint.reset()
    monkeypatch.setenv(failpoint.VARIABLE, where)
    with pytest.raises(MillstreamError, match="TEST-FAILPOINT"):
        run()
    monkeypatch.delenv(failpoint.VARIABLE)
    return run()


def with_abort(script):
    middle = len(script) // 2
    return [*script[:middle], dict(ABORT()), *script[middle:]]


def many(case):
    """Scripts with many rows are cut coarsely, so that they take a few epochs."""
    rows = max((sum(MARK not in row for row in script) for script in case.inputs.values()), default=0)
    return rows // 5 if rows > 50 else None
