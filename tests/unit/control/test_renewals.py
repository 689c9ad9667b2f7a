"""Leases are renewed in time: by a process that has just begun, while others are slow, and however a lock is held."""

import subprocess
import sys
import threading
import time

import pytest
from sqlalchemy import select
from tests.unit.control.conftest import silent_for, submission
from tests.unit.control.fake_drivers import FakeDrivers
from tests.unit.control.test_node import Machine

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes.claims import renew
from millstream.control.nodes.node import Node
from millstream.control.nodes.registration import nodes, set_state

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def machine(metadata, clock):
    return Machine(metadata, clock, slots=len(NAMES))


@pytest.fixture
def runs(act, machine):
    """Four runs that go on, with leases that were renewed just now."""
    with act() as a:
        for name in NAMES:
            submit(a, submission(name))
        started = [start(a, name, StartOptions()).execution_id for name in NAMES]
    machine.round()
    for run in started:
        machine.drivers[run].runs()
    machine.round()
    return started


@pytest.fixture
def left(metadata, clock):
    """Seconds that each lease has left."""

    def read():
        with acting(metadata) as act:
            ends = act.connection.execute(select(lease.c.expires_at).order_by(lease.c.name)).scalars()
            return [round((end - clock.now).total_seconds()) for end in ends]

    return read


def new_process(machine, monkeypatch):
    """Another process of the node, which has done nothing yet."""
    with monkeypatch.context() as patched:
        patched.setattr(Node, "start", lambda self: None)
        machine.start()
    return machine.node


def statuses(act, runs):
    with act() as a:
        return {(run_of(a, run).status, run_of(a, run).attempt) for run in runs}


def test_a_new_process_renews_with_its_first_transaction(machine, runs, left, monkeypatch):
    machine.forward(14)
    assert left() == [1] * 4
    new_process(machine, monkeypatch).register()
    assert left() == [15] * 4, "nobody was connected to yet"


def test_processes_that_end_as_soon_as_they_begin_lose_nothing(machine, runs, act, metadata, clock, monkeypatch):
    """Each was killed 12 s after its start, before it could connect to anything."""
    reconciler = Reconciler(metadata)
    reconciler.round()
    for _ in range(5):
        silent_for(12, clock, reconciler)
        new_process(machine, monkeypatch).register()
    machine.node.round()
    assert statuses(act, runs) == {("RUNNING", 1)}


def test_drivers_that_are_slow_to_connect_to_cost_no_lease(machine, runs, left, act, monkeypatch):
    """Six seconds each, four of them: the thread that renews has its turn meanwhile."""
    node, link, seen = new_process(machine, monkeypatch), machine.drivers.link, []

    def slow(run, token, **how):
        machine.forward(6)
        node.keep()
        seen.append(min(left()))
        return link(run, token, **how)

    monkeypatch.setattr(machine.drivers, "link", slow)
    node.start()
    assert seen == [15] * 4
    assert sorted(node.runs()) == sorted(runs)
    assert statuses(act, runs) == {("RUNNING", 1)}


def test_a_driver_is_told_as_soon_as_it_is_connected_to(machine, runs, monkeypatch):
    for driver in machine.drivers.drivers.values():
        driver.asked.clear()
    new_process(machine, monkeypatch).start()
    assert [driver.asked for driver in machine.drivers.drivers.values()] == [[("renewed", 15_000)]] * 4


def test_a_launch_that_takes_long_holds_up_no_renewal(machine, runs, left, act, metadata, monkeypatch):
    """Code is unpacked, a process starts: the node's own thread stands still for 20 s."""
    with act() as a:
        machine.node._offer = machine.node._offer._replace(slots=5)
        submit(a, submission("fifth"))
        start(a, "fifth", StartOptions())
    begun, go_on, launch = threading.Event(), threading.Event(), machine.drivers.launch

    def slow(spec):
        begun.set()
        assert go_on.wait(30)
        launch(spec)

    monkeypatch.setattr(machine.drivers, "launch", slow)
    working = threading.Thread(target=machine.node.round)
    working.start()
    assert begun.wait(30)
    for _ in range(4):
        machine.forward(5)
        machine.node.keep()
    assert left() == [15] * 5, "that of the new run among them"
    go_on.set()
    working.join(30)
    assert len(machine.node.runs()) == 5


def test_what_cannot_be_taken_up_is_not_held_for_ever(machine, runs, metadata, clock, act, monkeypatch):
    link = machine.drivers.link

    def broken(run, token, **how):
        if token == 1:
            raise ValueError("its folder is damaged")
        return link(run, token, **how)

    monkeypatch.setattr(machine.drivers, "link", broken)
    machine.start()
    reconciler = Reconciler(metadata)
    reconciler.round()
    for _ in range(8):
        machine.monotonic += 4
        silent_for(4, clock, reconciler)
        machine.node.round()
    assert statuses(act, runs) == {("INITIALIZING", 2)}


def test_a_lock_on_one_lease_keeps_the_others_from_nothing(machine, runs, left, metadata, clock, act):
    """A dispatcher that was stopped in the middle of a sweep holds one."""
    if metadata.is_sqlite:
        return
    held = {f"job:{number}:0": 1 for number in (1, 2, 3, 4)}
    with metadata.begin() as other:
        other.execute(select(lease).where(lease.c.name == "job:1:0").with_for_update())
        clock.forward(5)
        began = time.monotonic()
        with act() as a:
            renewed = renew(a, "n1", held)
        assert time.monotonic() - began < 2
    assert (sorted(renewed.kept), renewed.lost) == (["job:2:0", "job:3:0", "job:4:0"], set())
    assert left() == [10, 15, 15, 15]


def test_a_run_that_is_locked_keeps_no_dispatcher_waiting(machine, runs, metadata, clock, act):
    if metadata.is_sqlite:
        return
    reconciler = Reconciler(metadata)
    reconciler.round()
    with metadata.begin() as other:
        other.execute(select(execution).where(execution.c.execution_id == runs[0]).with_for_update())
        began = time.monotonic()
        silent_for(20, clock, reconciler)
        assert time.monotonic() - began < 5
        assert {run: statuses(act, [run]) for run in runs} == {
            run: {("RUNNING" if run == runs[0] else "SCHEDULED", 1)} for run in runs
        }
    silent_for(4, clock, reconciler)
    assert statuses(act, runs) == {("SCHEDULED", 1)}


def test_a_machine_that_slept_with_its_database_sweeps_nobody(machine, runs, metadata, clock, act):
    """Suspended for an hour: only the database's clock shows it."""
    passed = [0.0]
    reconciler = Reconciler(metadata, monotonic=lambda: passed[0])
    for _ in range(20):
        passed[0] += 1
        machine.forward(1)
        machine.round()
        reconciler.round()
    clock.forward(3600)
    passed[0] += 1
    reconciler.round()  # it wakes up first
    machine.monotonic += 5
    machine.round()
    for _ in range(20):
        machine.forward(1)
        machine.round()
        reconciler.round()
    assert statuses(act, runs) == {("RUNNING", 1)}


@pytest.mark.parametrize("state", ["CORDONED", "DRAINING"])
def test_what_people_want_of_a_node_outlives_its_process(machine, runs, metadata, act, state, monkeypatch):
    with act() as a:
        set_state(a, "n1", state)
        submit(a, submission("new"))
        new = start(a, "new", StartOptions()).execution_id
    machine.start()  # the process crashed; this one claims nothing, not even before its first heartbeat
    machine.node._claim()
    machine.round()
    with act() as a:
        assert [each["state"] for each in nodes(a)] == [state]
    assert statuses(act, [new]) == {("SCHEDULED", 0)}
    assert sorted(machine.drivers.stopped) == (sorted(runs) if state == "DRAINING" else [])


def test_a_node_that_was_drained_and_ended_in_order_begins_anew(metadata, clock, act):
    machine = Machine(metadata, clock, drivers=FakeDrivers())

    def state():
        with act() as a:
            return [each["state"] for each in nodes(a)]

    with act() as a:
        set_state(a, "n1", "DRAINING")
    machine.forward(5)
    machine.round()
    machine.node.leave()
    assert state() == ["GONE"]
    machine.start()
    assert state() == ["ACTIVE"]


def test_a_node_process_loads_no_server():
    """How long it takes to start is how long its runs are nobody's."""
    code = (
        "import sys, millstream.cli.service.nodes, millstream.control.plane, millstream.control.metadata.opened\n"
        "print(sorted({'fastapi', 'uvicorn', 'pyspark', 'duckdb', 'sqlglot'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"
