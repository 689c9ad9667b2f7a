"""A run that takes long to publish is CHECKPOINTING: only then, and whatever else happens to it meanwhile."""

import os
import signal

import pytest
from sqlalchemy import select
from tests.unit.control.conftest import silent_for, submission
from tests.unit.control.fake_drivers import FakeDrivers
from tests.unit.control.test_node import Machine
from tests.unit.control.test_real_drivers import endless, service  # noqa: F401  (a fixture)

from millstream.api.running.publishing import Publishing
from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.rescaling import rescale
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.runs import run_event


@pytest.fixture
def machine(metadata, clock):
    return Machine(metadata, clock)


@pytest.fixture
def run(act, machine):
    """A run that is publishing an epoch for more than a second."""
    with act() as a:
        submit(a, submission())
        started = start(a, "orders", StartOptions()).execution_id
    machine.round()
    machine.drivers[started].runs()
    told(machine, started, "RUNNING", "CHECKPOINTING", "epoch 3 is being published")
    machine.round()
    return started


def told(machine, run, before, after, cause, error=None):
    machine.drivers[run].report("state", **{"from": before, "to": after, "cause": cause, "error": error})


def moves(metadata, run):
    with metadata.begin() as connection:
        asked = select(run_event.c.kind, run_event.c.to_status).where(run_event.c.execution_id == run)
        found = connection.execute(asked.order_by(run_event.c.seq)).all()
    return [row.to_status if row.kind == "moved" else row.kind for row in found][3:]


def status(act, run):
    with act() as a:
        return run_of(a, run).status


def test_what_takes_long_is_known_from_another_thread():
    now = [10.0]
    publishing = Publishing(lambda: now[0])
    assert publishing.longer_than(1.0) is None
    with pytest.raises(OSError), publishing.of("epoch 7"):
        assert publishing.longer_than(1.0) is None
        now[0] = 11.5
        assert publishing.longer_than(1.0) == "epoch 7"
        raise OSError
    assert publishing.longer_than(1.0) is None


def test_it_is_told_with_its_cause_and_goes_on(metadata, machine, run, act):
    assert status(act, run) == "CHECKPOINTING"
    told(machine, run, "CHECKPOINTING", "RUNNING", "nothing is being published any more")
    machine.round()
    assert moves(metadata, run)[-3:] == ["RUNNING", "CHECKPOINTING", "RUNNING"]
    with metadata.begin() as connection:
        causes = connection.execute(select(run_event.c.cause).order_by(run_event.c.id.desc()).limit(2)).scalars().all()
    assert causes == ["nothing is being published any more", "epoch 3 is being published"]


def test_a_run_that_is_cancelled_meanwhile_stays_cancelling(machine, run, act):
    with act() as a:
        stop(a, run_of(a, run), Wish("cancel"))
    told(machine, run, "CHECKPOINTING", "RUNNING", "nothing is being published any more")
    told(machine, run, "RUNNING", "CHECKPOINTING", "epoch 4 is being published")
    machine.round()
    assert status(act, run) == "CANCELLING"
    machine.drivers[run].ends("CANCELLED")
    machine.round()
    assert status(act, run) == "CANCELLED"


def test_a_run_that_gets_over_a_failure_meanwhile_says_so(metadata, machine, run, act):
    error = {"code": "EXT-001", "message": "no server"}
    told(machine, run, "CHECKPOINTING", "RUNNING", "restarts by itself (1 of 3)", error)
    machine.round()
    assert moves(metadata, run)[-3:] == ["CHECKPOINTING", "RUNNING", "restarted"]


@pytest.mark.parametrize("ended", ["COMPLETED", "SUSPENDED"])
def test_it_may_end_there(machine, run, act, ended):
    machine.drivers[run].ends(ended)
    machine.round()
    assert status(act, run) == ended


def test_it_may_fail_there(metadata, machine, run, act):
    machine.drivers[run].is_alive = False
    machine.round()
    assert moves(metadata, run)[-3:] == ["CHECKPOINTING", "FAILED", "SCHEDULED"]


def test_another_process_of_the_node_adopts_it(metadata, machine, run, act):
    machine.start()
    assert status(act, run) == "CHECKPOINTING"
    told(machine, run, "CHECKPOINTING", "RUNNING", "nothing is being published any more")
    machine.round()
    assert moves(metadata, run)[-3:] == ["RUNNING", "CHECKPOINTING", "RUNNING"], "told once, although it came twice"


def test_an_owner_that_was_replaced_moves_nothing(metadata, clock, machine, run, act):
    reconciler = Reconciler(metadata)
    reconciler.round()
    silent_for(20, clock, reconciler)
    if metadata.is_sqlite:
        machine.forward(2)
    else:
        Machine(metadata, clock, "n2", drivers=FakeDrivers()).round()
    before = moves(metadata, run), status(act, run)
    told(machine, run, "CHECKPOINTING", "RUNNING", "nothing is being published any more")
    told(machine, run, "RUNNING", "CHECKPOINTING", "epoch 4 is being published")
    machine.node._write_reports()
    assert (moves(metadata, run), status(act, run)) == before
    assert before[1] in ("SCHEDULED", "INITIALIZING")


def test_it_can_be_rescaled(run, act):
    with act() as a:
        rescale(a, run_of(a, run), 3)
        assert run_of(a, run).wanted == "suspend"


def states(service, run):  # noqa: F811
    return moves(service.metadata, run)


def test_a_real_driver_tells_of_an_epoch_that_takes_long(service, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "durable:3:sleep")
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.status == "CHECKPOINTING")
    service.until(run, lambda row: row.status == "RUNNING")
    assert service.ask(run, Wish("drain")).result["status"] == "COMPLETED"
    assert states(service, run).count("CHECKPOINTING") == 1, "short ones are not told"


def test_a_real_driver_that_is_killed_meanwhile(service, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "durable:3:sleep")
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.status == "CHECKPOINTING")
    monkeypatch.delenv("MILLSTREAM_FAILPOINTS")
    os.kill(service.driver(run), signal.SIGKILL)
    service.until(run, lambda row: row.attempt == 2 and row.status == "RUNNING")
    assert service.ask(run, Wish("cancel")).result["status"] == "CANCELLED"
    told = states(service, run)
    assert told[told.index("CHECKPOINTING") :][:3] == ["CHECKPOINTING", "FAILED", "SCHEDULED"]


def test_a_savepoint_that_takes_long(service, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "savepoint_written:1:sleep")
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.status == "RUNNING" and row.processed_records > 0)
    assert service.ask(run, Wish("export_savepoint")).status == "done"
    service.until(run, lambda row: row.status == "RUNNING")
    assert states(service, run).count("CHECKPOINTING") == 1
    assert service.ask(run, Wish("cancel")).result["status"] == "CANCELLED"
