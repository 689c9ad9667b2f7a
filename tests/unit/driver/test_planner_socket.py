"""The planner's socket: served until it is closed, whatever a single connection comes to."""

import errno
import json
import socket
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from millstream.driver.planner_socket import PlannerSocket
from millstream.plan.epoch import EpochPlan


class Planned:
    """A run whose planner knows its beginning."""

    class planner:
        @staticmethod
        def initial():
            class Plan:
                @staticmethod
                def to_json():
                    return {"epoch": -1}

            return Plan


@pytest.fixture
def served():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        planner = PlannerSocket(Planned(), Path(folder) / "p")
        yield planner
        planner.close()


def asked(planner):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(10)
        wire.connect(planner.path)
        with wire.makefile("rwb") as file:
            file.write(b'{"op": "initial"}\n')
            file.flush()
            return json.loads(file.readline())


def test_a_connection_that_fails_is_not_the_last(served, monkeypatch):
    accept, failures = served._server.get_request, [OSError(errno.EMFILE, "too many open files"), None]
    failed = threading.Event()

    def get_request():
        if failures:
            problem = failures.pop(0)
            if problem is not None:
                failed.set()
                raise problem
        return accept()

    monkeypatch.setattr(served._server, "get_request", get_request)
    assert asked(served) == {"ok": {"epoch": -1}}
    assert asked(served) == {"ok": {"epoch": -1}}
    assert failed.is_set()
    assert asked(served) == {"ok": {"epoch": -1}}


def test_closing_does_not_wait(served):
    assert asked(served) == {"ok": {"epoch": -1}}
    served.close()
    assert not served._thread.is_alive()
    with pytest.raises(OSError):
        asked(served)


class Idle:
    """A run in which something is due only once it was asked so often."""

    def __init__(self, due_at, *, is_bounded=False):
        self.due_at, self.asked = due_at, 0
        self.deployment = SimpleNamespace(is_bounded=is_bounded)
        self.requests = SimpleNamespace(ended=None)

    def plan_next(self, last, *, always_begins=False):
        self.asked += 1
        is_due = always_begins or self.asked >= self.due_at
        return msgspec.structs.replace(last, epoch=last.epoch + 1) if is_due else last


def next_behind(run, plan):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        planner = PlannerSocket(run, Path(folder) / "p")
        try:
            return planner._answer({"op": "next", "last": plan.to_json()})["ok"]
        finally:
            planner.close()


def test_a_question_waits_for_what_is_due_soon():
    run, plan = Idle(due_at=3), EpochPlan(epoch=4, now=0, sources={})
    assert next_behind(run, plan)["epoch"] == 5
    assert run.asked == 3


def test_nothing_due_gives_back_the_very_same_plan():
    plan = EpochPlan(epoch=4, now=0, sources={})
    assert next_behind(Idle(due_at=10**9), plan) == plan.to_json()


@pytest.mark.parametrize("ending", ["terminal", "asked for"])
def test_nobody_waits_behind_the_end(ending):
    run, plan = Idle(due_at=10**9), EpochPlan(epoch=4, now=0, sources={}, terminal=ending == "terminal")
    run.requests.ended = None if ending == "terminal" else "cancelled"
    next_behind(run, plan)
    assert run.asked == 1


def test_the_first_epoch_of_bounded_input_waits_for_its_first_rows():
    run, plan = Idle(due_at=15, is_bounded=True), EpochPlan(epoch=-1, now=0, sources={})
    assert next_behind(run, plan)["epoch"] == 0
    assert run.asked == 15, "it did not have to begin without rows"


def test_the_first_epoch_begins_in_any_case():
    assert next_behind(Idle(due_at=10**9), EpochPlan(epoch=-1, now=0, sources={}))["epoch"] == 0
