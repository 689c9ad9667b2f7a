"""A compiling process that waits: the same plans, each from a process of its own, and a new one where none waits."""

import os
import signal
import time

import pytest
from test_planning import declarative

from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.planning_ahead import PlannerAhead
from millstream.errors import InvalidPlan, InvalidStep


@pytest.fixture
def planner():
    made = PlannerAhead()
    made.tend()
    yield made
    made.close()


def waiting(planner):
    return None if planner._waiting is None else planner._waiting.pid


def test_it_gives_the_plan_that_a_new_process_gives(planner):
    pid = waiting(planner)
    definition = declarative({"filter": "value > 3"})
    assert planner(definition, code=None, parallelism=3) == planned_apart(definition, code=None, parallelism=3)
    assert not os.path.exists(f"/proc/{pid}")
    planner._used = float("-inf")
    planner.tend()
    assert waiting(planner) not in (None, pid)


def test_what_is_wrong_is_told(planner, tmp_path):
    (tmp_path / "job.py").write_text("import os\nos._exit(3)")
    with pytest.raises(InvalidPlan, match=r"CTL-027.*exit code 3"):
        planner({"kind": "code", "entry": "job.py"}, code=str(tmp_path), parallelism=None)
    with pytest.raises(InvalidStep, match="DECL-005"):
        planner(declarative({"nothing": 1}), code=None, parallelism=None)


def test_one_that_died_or_has_another_environment_is_not_asked(planner, monkeypatch):
    os.kill(waiting(planner), signal.SIGKILL)
    planner._waiting.wait(5)
    assert planner(declarative(), code=None, parallelism=None).name == "ticks"
    planner._used = float("-inf")
    planner.tend()
    pid = waiting(planner)
    monkeypatch.setenv("MILLSTREAM_SOMETHING", "new")
    assert planner(declarative(), code=None, parallelism=None).name == "ticks"
    assert not os.path.exists(f"/proc/{pid}")


def test_the_next_one_does_not_start_beside_a_run():
    now = [0.0]
    planner = PlannerAhead(monotonic=lambda: now[0])
    planner(declarative(), code=None, parallelism=None)
    planner.tend()
    assert waiting(planner) is None
    now[0] = 3.0
    planner.tend()
    pid = waiting(planner)
    assert pid is not None
    planner.close()
    planner.tend()
    assert waiting(planner) is None
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}")
