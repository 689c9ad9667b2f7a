"""Options of a run: each is checked by name and by value, and durations may be written as text."""

import datetime as dt
import pickle
from pathlib import Path

import pytest

import millstream as ms
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.deployment import Deployment, EpochPolicy, MemoryBudget


def job():
    made = ms.Job("options")
    made.source("rows", ms.memory([{"n": 1}]), schema="n long").sink("out", ms.collect("options"))
    return made


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"memory": "1g"}, "MemoryBudget, such as memory=MemoryBudget(driver_mb=2048)"),
        ({"epochs": {"timeout": "10s"}}, "EpochPolicy, such as epochs=EpochPolicy(timeout='10m')"),
        ({"epochs": 3}, "EpochPolicy"),
        ({"confs": "spark.x=1"}, "pairs"),
        ({"confs": [("spark.x",)]}, "a pair"),
        ({"confs": {"spark.x": None}}, "text, a number or a flag"),
        ({"master": 3}, "local[*]"),
        ({"master": ""}, "local[*]"),
        ({"manifests": 3, "checkpoint": "c"}, "a path as text or Path"),
        ({"checkpoint": 3}, "a path as text or Path"),
        ({"from_savepoint": 3}, "a path as text or Path"),
        ({"local": "yes"}, "True or False"),
        ({"allow_dropped_state": 1}, "True or False"),
        ({"ignore_state_once": "no"}, "True or False"),
    ],
)
@pytest.mark.parametrize("call", ["run", "start"])
def test_a_wrong_value_names_its_option(options, known, call):
    with pytest.raises(InvalidPlan, match="RUN-024") as refused:
        getattr(job(), call)(**{"local": True, **options})
    assert repr(next(iter(options))) in refused.value.message or "confs" in refused.value.message
    assert known in refused.value.known


@pytest.mark.parametrize("call", ["run", "start"])
def test_an_unknown_keyword_names_the_nearest(call):
    with pytest.raises(InvalidStep, match=r"PLAN-060.*'maser'.*did you mean master=") as refused:
        getattr(job(), call)(maser="local[2]")
    for name in ("master", "checkpoint", "local", "epochs", "on_stop", "from_savepoint"):
        assert name in refused.value.known.split(", ")


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: ms.Job("x", paralelism=2), "parallelism="),
        (lambda: EpochPolicy(timout="10s"), "timeout="),
        (lambda: MemoryBudget(driver=1), "driver_mb="),
        (lambda: Deployment(state_backed="memory"), "state_backend="),
    ],
)
def test_other_calls_do_too(call, near):
    with pytest.raises(InvalidStep, match="PLAN-060") as refused:
        call()
    assert near in refused.value.hint


def test_durations_as_text():
    policy = EpochPolicy(min_pause="500ms", timeout="10s", lease_term=dt.timedelta(seconds=2), retained=3)
    assert policy == EpochPolicy(min_pause=500, timeout=10_000, lease_term=2_000, retained=3)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert job().run(local=True, epochs=EpochPolicy(timeout="10s")).rows_in == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"timeout": "soon"}, "STEP-004"),
        ({"timeout": 1.5}, "RUN-024"),
        ({"timeout": True}, "RUN-024"),
        ({"retained": "3"}, "RUN-024"),
        ({"tolerated_failures": None}, "RUN-024"),
        ({"timeout": "0s"}, "PLAN-032"),
        ({"lease_term": "1ms"}, "PLAN-032"),
    ],
)
def test_a_wrong_policy_is_refused(options, code):
    with pytest.raises(ms.MillstreamError, match=code) as refused:
        EpochPolicy(**options)
    assert next(iter(options)) in str(refused.value)


def test_sizes_are_whole_numbers():
    with pytest.raises(InvalidPlan, match=r"RUN-024.*driver_mb.*'1g'"):
        MemoryBudget(driver_mb="1g")


@pytest.mark.parametrize("confs", ["spark.secret=hunter2", [("spark.secret", "hunter2", 3)], {"spark.s": ["hunter2"]}])
def test_a_wrong_setting_does_not_show_its_value(confs):
    with pytest.raises(InvalidPlan, match="RUN-024") as refused:
        Deployment(confs=confs)
    assert "hunter2" not in str(refused.value)


def test_settings_from_a_mapping_or_pairs():
    given = {"spark.a": "x", "spark.b": True, "spark.c": 3}
    assert Deployment(confs=given).confs == (("spark.a", "x"), ("spark.b", "true"), ("spark.c", "3"))
    assert Deployment(confs=[["spark.a", "x"]]).confs == (("spark.a", "x"),)


def test_paths_may_be_paths():
    found = Deployment(checkpoint=Path("a"), manifests=Path("b"))
    assert (found.checkpoint, found.manifests) == ("a", "b")
