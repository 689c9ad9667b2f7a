"""Which sinks write in which way, and with which jobs: what does not fit is refused when the job is built or compiled."""

import pytest

import millstream as ms
from millstream.contract.sink import SinkContext
from millstream.errors import InvalidPlan, InvalidStep
from millstream.model.connector import (
    ConnectorSpec,
    Option,
    SinkDeclaration,
    checked_options,
    is_written_directly,
    write_option,
)
from millstream.model.guarantee import Guarantee, SinkCapability

ROWS = [{"id": 1}]


def job_with(connector, source=None, **options):
    job = ms.Job("j", **options)
    job.source("in", source or ms.memory(ROWS), schema="id long").sink("out", connector)
    return job


def table(**options):
    return ms.jdbc("sqlite:///x.db", table="t", **options)


@pytest.mark.parametrize("kind", ["append", "replace", "upsert"])
@pytest.mark.parametrize("name", ["print", "collect", "kafka", "http", "consumer"])
def test_a_connector_that_knows_one_way_refuses_the_word_by_its_name(name, kind):
    with pytest.raises(InvalidStep) as refused:
        job_with(ConnectorSpec(name, {"write": kind}))
    assert (refused.value.code, name in refused.value.message) == ("CONN-007", True)


@pytest.mark.parametrize(("connector", "known"), [(ms.files("out", write="upsert"), "append, replace")])
def test_a_kind_that_a_connector_does_not_take_is_refused_with_those_it_does(connector, known):
    with pytest.raises(InvalidStep) as refused:
        job_with(connector)
    assert refused.value.code == "CONN-005"
    assert known in refused.value.known


def mode_of(**options):
    (sink,) = [step for step in job_with(table(**options)).model.steps if step.id == "out"]
    return sink.operation.connector.options["mode"]


def test_both_words_for_what_becomes_of_a_row_agree():
    assert mode_of() == mode_of(write="append") == mode_of(write="replace") == "insert"
    assert mode_of(write="upsert", keys=["id"]) == mode_of(mode="upsert", keys=["id"]) == "upsert"
    assert mode_of(mode="upsert", keys=["id"], write="replace") == "upsert"


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "insert", "write": "upsert"},
        {"mode": "upsert", "write": "append", "keys": ["id"]},
        {"mode": "outbox", "write": "replace"},
        {"mode": "outbox", "write": "upsert"},
    ],
)
def test_words_that_contradict_each_other_are_refused(options):
    with pytest.raises(InvalidStep) as refused:
        job_with(table(**options)).compile()
    assert refused.value.code == "JDBC-001"


@pytest.mark.parametrize("sink", [ms.files("out", write="replace"), table(write="replace")])
def test_a_job_without_an_end_has_no_result(sink):
    with pytest.raises(InvalidPlan, match="source 'in' has no end") as refused:
        job_with(sink, ms.files("in", watch=True)).compile()
    assert refused.value.code == "PLAN-044"


def test_a_result_is_not_cut_by_a_signal(tmp_path):
    with pytest.raises(InvalidPlan) as refused:
        job_with(table(write="replace"), on_stop="drain").compile()
    assert refused.value.code == "PLAN-045"
    with pytest.raises(InvalidPlan) as refused:
        job_with(ms.files(tmp_path / "out", write="replace")).run(local=True, on_stop="drain")
    assert refused.value.code == "PLAN-045"
    job_with(table(write="append"), on_stop="drain").compile()


def test_partitions_of_a_result_are_not_marked_one_by_one():
    sink = ms.files("out", write="replace", partition_by="id", partition_commit="1m")
    with pytest.raises(InvalidStep, match="partition_commit") as refused:
        job_with(sink).compile()
    assert refused.value.code == "FILES-032"


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_what_replaces_is_staged_whatever_the_guarantee(guarantee):
    (sink,) = [step for step in job_with(table(write="replace")).model.steps if step.id == "out"]
    assert not is_written_directly(sink.operation.connector, guarantee)


def test_the_plan_shows_it_where_it_is_said():
    job = job_with(ms.files("out", write="replace"))
    assert "write='replace'" in job.explain("stream")
    assert "replaces     out: its result, at the end of a run" in job.explain("deployment")
    assert job.to_json()["steps"][1]["connector"]["options"]["write"] == "replace"
    plain = job_with(ms.files("out"))
    assert "write" not in plain.explain("stream")
    assert "replaces" not in plain.explain("deployment")
    assert job.compile().partitioned.fingerprint == plain.compile().partitioned.fingerprint


def test_the_word_may_be_a_parameter_of_the_run(tmp_path):
    job = ms.Job("j", carry="nothing", params={"how": {"type": "string", "default": "append"}})
    source = job.source("in", ms.memory([{"id": 1}, {"id": 2}]), schema="id long")
    source.sink("out", ms.files(tmp_path / "out", write="${param:how}"))
    for how, rows in (("append", 2), ("append", 4), ("replace", 2), ("append", 4), ("replace", 2)):
        job.run(local=True, checkpoint=tmp_path / "c", params={"how": how})
        assert ms.read_files(tmp_path / "out").num_rows == rows


def test_a_sink_of_another_package_says_which_kinds_it_takes():
    declared = SinkDeclaration(
        options={"to": Option(kind=(str,), doc="where"), "write": write_option("append", "replace")},
        capability=SinkCapability.STAGED_ATOMIC_COMMIT,
        writer="theirs:Writer",
        committer="theirs:Committer",
        direct_writer="theirs:Direct",
        writes_directly=lambda options, guarantee: True,
    )
    options = checked_options(declared.options, {"to": "x", "write": "replace"}, step="out", name="theirs")
    assert not declared.is_direct(options, Guarantee.AT_LEAST_ONCE)
    assert declared.is_direct({**options, "write": None}, Guarantee.AT_LEAST_ONCE)
    with pytest.raises(InvalidStep, match="'theirs'"):
        checked_options(declared.options, {"to": "x", "write": "upsert"}, step="out", name="theirs")
    assert SinkContext.__dataclass_fields__["same_run"].default == ()
