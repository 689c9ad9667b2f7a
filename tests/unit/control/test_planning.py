"""Definitions compiled in a process of their own: data runs no code, code runs apart, and what is wrong is told as it is."""

import subprocess
import time
from pathlib import Path

import pytest

from millstream.contract.reach import Reach
from millstream.control.dispatcher import planning
from millstream.control.dispatcher.planning import planned_apart, told_by
from millstream.errors import ExternalFailure, InvalidPlan, InvalidStep, StepFailed

STEPS = [{"source": "ticks", "from": {"rate": {"rows_per_second": 100}}}, {"sink": "out", "to": {"print": {}}}]


def declarative(*between, **more):
    document = {"job": "ticks", "guarantee": "at_least_once", "steps": [STEPS[0], *between, STEPS[1]], **more}
    return {"kind": "declarative", "document": document}


def plan(definition, code=None, parallelism=None):
    return planned_apart(definition, code=code, parallelism=parallelism)


def test_a_plan_is_told_without_running_it():
    planned = plan(declarative({"filter": "value > 3"}), parallelism=3)
    assert (planned.name, planned.mode, planned.parallelism, planned.guarantee) == (
        "ticks",
        "STREAMING",
        3,
        "at_least_once",
    )
    assert [step["kind"] for step in planned.steps] == ["source", "filter", "sink"]
    assert "subtasks" in planned.texts["partitioned"]
    assert planned.fingerprint == plan(declarative({"filter": "value > 3"})).fingerprint


def test_secrets_are_found_by_name():
    definition = declarative({"filter": "value > 1"})
    definition["document"]["steps"][-1] = {
        "sink": "out",
        "to": {"jdbc": {"url": "postgresql://ada:${secret:PG}@db/x", "table": "t"}},
    }
    assert plan(definition).secrets == ["PG"]


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:call", "millstream.cli.main:main", "builtins:exec", "posix:abort"]
)
def test_data_runs_no_code_that_is_installed_here(name):
    for step in ({"map": name}, {"flat_map": name, "schema": "a long"}):
        with pytest.raises(InvalidStep, match="would have to be in the job's artifact, and the job has none"):
            plan(declarative(step))


def test_data_may_use_functions_of_its_artifact(tmp_path):
    (tmp_path / "mine.py").write_text("def double(row):\n    return {**row, 'value': row['value'] * 2}\n")
    step = {"map": "mine:double", "schema": "timestamp timestamp, value long"}
    assert plan(declarative(step), code=str(tmp_path)).name == "ticks"
    with pytest.raises(InvalidStep, match="would have to be in the job's artifact, and it is not there"):
        plan(declarative({"map": "os:system"}), code=str(tmp_path))


CODE = """
import millstream as ms
print("noise that is no answer")
job = ms.Job("coded", guarantee="at_least_once")
job.source("ticks", ms.rate(10)).sink("out", ms.print())
"""


def test_code_is_loaded_from_its_folder(tmp_path):
    (tmp_path / "job.py").write_text(CODE)
    assert plan({"kind": "code", "entry": "job.py"}, code=str(tmp_path)).name == "coded"
    with pytest.raises(InvalidPlan, match="CTL-114"):
        plan({"kind": "code", "entry": "../job.py"}, code=str(tmp_path / "inside"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os\nos._exit(3)", "CTL-027.*exit code 3"),
        ("raise RuntimeError('no luck')", "CLI-006.*no luck"),
        ("x = 1", "CLI-004"),
    ],
)
def test_code_that_breaks_is_told(tmp_path, text, told):
    (tmp_path / "job.py").write_text(text)
    with pytest.raises(ValueError, match=told):
        plan({"kind": "code", "entry": "job.py"}, code=str(tmp_path))


def test_what_is_wrong_is_told_as_the_compiler_says_it():
    with pytest.raises(InvalidStep, match=r"DECL-005.*step 2"):
        plan(declarative({"nothing": 1}))
    with pytest.raises(InvalidPlan, match="CTL-113"):
        plan({"kind": "sql"})


def private(**more):
    """A job that asks a server of this machine, for its columns too while it is compiled."""
    source = {"http": {"url": "http://127.0.0.1:9/orders", "records": "data", "allow_private": True, **more}}
    steps = [{"source": "s", "from": source, "schema": "id long"}, STEPS[1]]
    return {"kind": "declarative", "document": {"job": "j", "guarantee": "at_least_once", "steps": steps}}


def test_what_a_job_may_reach_is_said_by_the_operator():
    with pytest.raises(StepFailed, match="CTL-130"):
        plan(private())
    assert planned_apart(private(), code=None, parallelism=None, reach=Reach(private=True)).name == "j"


def test_columns_are_not_asked_of_private_networks_either():
    definition = private(infer_schema=True)
    del definition["document"]["steps"][0]["schema"]
    with pytest.raises(StepFailed, match="HTTP-030"):
        plan(definition)


def lives(pid):
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_a_file_started_ends_with_the_process_that_took_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "_SECONDS", 0.2)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = ["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait"]
    child = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
    end = time.monotonic() + 20
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(ExternalFailure, match="was not compiled"):
        told_by(child, {}, code=None, parallelism=None, reach=Reach())
    pid = int((tmp_path / "pid").read_text())
    while lives(pid):
        assert time.monotonic() < end, "what it started goes on"
        time.sleep(0.01)
