"""State that an earlier version kept under `-0.0`, or under NaNs of other bits, belongs to the one key they are now."""

import importlib
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from tests.compat.float_keys import jobs

from millstream.checkpoint import failpoint
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused, MillstreamError
from millstream.graph.operations.endpoints import Sink
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start
from millstream.spark.files.operator_files import relocate

HERE = Path(__file__).parent
ENGINES = {"local": "millstream.local.run", "spark": "millstream.driver.run"}
JOBS = {"merged": (jobs.merged_job, jobs.merged_output), "kept": (jobs.kept_job, jobs.kept_output)}
READ = jobs.ROWS // 2
FORMS = ["checkpoint", "savepoint"]


@pytest.fixture
def stored(tmp_path):
    """Unpacks what one job left on an engine."""

    def unpack(engine, name):
        with tarfile.open(HERE / f"{engine}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        for folder in (tmp_path / name / "checkpoint" / "spark").glob("*"):
            # Spark names the files of its state by their whole paths.
            relocate(folder.resolve())
        return tmp_path / name

    return unpack


def resumed(job, folder, form, engine="local"):
    """Run a job to its end from its checkpoint, or from its savepoint; returns what this run gave, by sink."""
    place = folder / ("checkpoint" if form == "checkpoint" else "fresh")
    savepoint = None if form == "checkpoint" else str(next((folder / "savepoints").iterdir()))
    plan = compile_job(job.model, Deployment(checkpoint=str(place))).deployment
    names = [step.operation.connector.options["name"] for step in job.model.steps if isinstance(step.operation, Sink)]
    try:
        run = importlib.import_module(ENGINES[engine]).run
        result = run(plan, clock=lambda: 0, start=Start(savepoint=savepoint))
        assert result.ended == "finished"
        return {name: collected(name) for name in names}
    finally:
        for name in names:
            clear(name)


def counted(rows):
    """Rows as a multiset; text tells `0.0` from `-0.0`, and NaN equals itself there."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def check(found, expected):
    assert found.keys() == expected.keys()
    for sink, rows in expected.items():
        assert counted(found[sink]) == counted(rows), sink


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", JOBS)
def test_what_was_stored_is_of_one_key(stored, name, form):
    build, output = JOBS[name]
    check(resumed(build(), stored("local", name), form), output(READ))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ["staged", "durable"])
@pytest.mark.parametrize("name", JOBS)
def test_a_first_epoch_that_fails_runs_again(stored, name, place, form, monkeypatch):
    build, output = JOBS[name]
    folder = stored("local", name)
    failpoint.reset()
    monkeypatch.setenv(failpoint.VARIABLE, f"{place}:1:raise")
    with pytest.raises(MillstreamError, match="TEST-FAILPOINT"):
        resumed(build(), folder, form)
    monkeypatch.delenv(failpoint.VARIABLE)
    check(resumed(build(), folder, form), output(READ))


@pytest.mark.parametrize("name", JOBS)
def test_a_savepoint_of_spark_is_restored_locally(stored, name):
    build, output = JOBS[name]
    check(resumed(build(), stored("spark", name), "savepoint"), output(READ))


@pytest.mark.spark
@pytest.mark.parametrize("name", JOBS)
def test_a_checkpoint_of_spark_is_resumed_on_spark(stored, spark, name):
    build, output = JOBS[name]
    check(resumed(build(), stored("spark", name), "checkpoint", "spark"), output(READ))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", jobs.KEPT)
def test_what_cannot_be_merged_is_refused_by_name(stored, step, form):
    with pytest.raises(CheckpointRefused) as caught:
        resumed(jobs.kept_job(jobs.EVERY, step), stored("local", f"twice-{step}"), form)
    assert caught.value.code == "CKPT-070"
    assert caught.value.step == f"{step}-of"
    assert "0.0" in caught.value.found or "7ff8000000000000" in caught.value.found
