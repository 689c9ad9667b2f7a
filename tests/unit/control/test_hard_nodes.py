"""What goes wrong around a node: lost replies, stale reports, sleeping databases, clocks set back, unstorable reports."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import select, update
from tests.unit.control.conftest import reap, silent_for, submission
from tests.unit.control.fake_drivers import FakeDrivers
from tests.unit.control.test_node import Machine

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.jobs import job_definition, job_version
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes import leases as leases_module
from millstream.control.nodes.claims import claim, renew
from millstream.control.nodes.identity import _kept
from millstream.control.nodes.reports import ReportWriter
from millstream.errors import ExternalFailure


@pytest.fixture
def machine(metadata, clock):
    return Machine(metadata, clock)


@pytest.fixture
def row(act):
    def read(run):
        with act() as a:
            return run_of(a, run)

    return read


@pytest.fixture
def run(act, job, machine):
    """A run of `orders` that the machine has claimed and that runs."""
    with act() as a:
        started = start(a, "orders", StartOptions())
    machine.round()
    machine.drivers[started.execution_id].runs()
    machine.round()
    return started.execution_id


def test_a_claim_whose_reply_was_lost_is_taken_up(metadata, clock, machine, act, job, row):
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
        claim(a, "n1", {})  # committed; the node never heard of it
    machine.forward(5)
    machine.round()
    assert (row(run).status, row(run).token, row(run).retry_count) == ("INITIALIZING", 2, 0), "not the job's fault"


def test_a_node_killed_between_claim_and_launch_costs_no_attempt(machine, act, job, row, monkeypatch):
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    for _ in range(5):
        monkeypatch.setattr(machine.node, "_launch", lambda *_: None)  # the process ends here
        machine.node._claim()
        machine.start()
    machine.round()
    assert (row(run).status, row(run).retry_count, row(run).attempt) == ("INITIALIZING", 0, 6)


def test_a_report_of_an_old_claim_changes_nothing(metadata, machine, act, run, row):
    stale = row(run)
    with act() as a:
        a.connection.execute(update(execution).values(token=7))
    with act() as a:
        report = machine.drivers[run].report("epoch", epoch=1, rows_in=9, rows_out=9, seconds=1, lag=0)
        assert not ReportWriter(a, stale.token, lambda epoch: None).write(stale, [report])
    assert (row(run).processed_records, row(run).driver.get("token")) == (0, 1)


def test_an_owner_that_comes_back_after_the_sweep_ends_its_driver(metadata, clock, machine, act, run, row):
    machine.forward(20)
    with act("system") as a:
        assert reap(a) == 1
    machine.drivers[run].epoch(1)
    machine.round()
    assert machine.drivers.killed == [(run, 1)]
    machine.round()
    assert (row(run).status, row(run).token, row(run).processed_records) == ("INITIALIZING", 2, 0)
    assert [driver.is_alive for driver in machine.drivers.drivers.values()] == [False, True]


def test_claimed_again_by_the_same_node_before_it_noticed(machine, act, run, row):
    with act() as a:  # the database's clock jumped, so another process declared the node lost
        a.connection.execute(update(lease).values(expires_at=a.now))
        assert reap(a) == 1
    machine.round()
    assert (row(run).token, machine.drivers.killed) == (2, [(run, 1)])


def test_a_renewal_in_the_last_moment_keeps_the_run(machine, act, run, metadata, monkeypatch):
    """Between the look at expired leases and the sweep of one of them its owner may come back."""
    machine.forward(20)
    from millstream.control.dispatcher import reconcile

    seen = reconcile.expired

    def late(act):
        rows = seen(act)
        renew(act, "n1", {"job:1:0": 1})
        return rows

    monkeypatch.setattr(reconcile, "expired", late)
    with act("system") as a:
        assert reap(a) == 0


def test_what_a_swept_run_was_asked_for_is_answered(metadata, machine, act, run):
    with act() as a:
        asked = {mode: stop(a, run_of(a, run), Wish(mode)) for mode in ("export_savepoint", "cancel")}
    machine.forward(20)
    with act("system") as a:
        assert reap(a) == 1
        assert run_of(a, run).status == "CANCELLED"
        found = dict(a.connection.execute(select(operation.c.id, operation.c.status)).all())
    assert {mode: found[each] for mode, each in asked.items()} == {"export_savepoint": "failed", "cancel": "done"}


def test_a_database_that_slept_gives_owners_time_to_come_back(metadata, clock, machine, run, row):
    """No call failed: everybody just waited."""
    passed = [0.0]
    reconciler = Reconciler(metadata, monotonic=lambda: passed[0])
    for _ in range(20):
        passed[0] += 1
        clock.forward(1)
        machine.monotonic += 1
        machine.round()
        reconciler.round()
    passed[0] += 60
    machine.forward(60)
    reconciler.round()  # it wakes up first
    assert row(run).status == "RUNNING"
    machine.round()
    assert (row(run).status, row(run).token) == ("RUNNING", 1)


def test_a_clock_that_was_set_back_does_not_keep_the_dead_alive(metadata, clock, machine, run, row):
    reconciler = Reconciler(metadata)
    reconciler.round()
    clock.forward(-3600)
    machine.round()
    machine.monotonic += 5
    machine.round()  # it renews by the clock that there is now; then it dies
    silent_for(32, clock, reconciler)
    assert row(run).status == "SCHEDULED"


def test_one_run_that_cannot_be_swept_keeps_nobody_waiting(metadata, clock, machine, act, run, row):
    with act() as a:
        submit(a, submission("second"))
        second = start(a, "second", StartOptions()).execution_id
    machine.round()
    job_id = row(run).job_id
    with act() as a:
        broken = update(job_version).where(job_version.c.job_id == job_id)
        a.connection.execute(broken.values(settings={"restart": {"strategy": "unheard of"}}))
    reconciler = Reconciler(metadata)
    reconciler.round()
    silent_for(20, clock, reconciler)
    assert row(second).status == "SCHEDULED"


def test_a_run_that_cannot_be_started_blocks_nobody(metadata, machine, act, job, row):
    with act() as a:
        broken = start(a, "orders", StartOptions()).execution_id
        a.connection.execute(update(job_version).values(settings={"engine": "steam"}))
        submit(a, submission("second"))
        second = start(a, "second", StartOptions()).execution_id
    machine.round(2)
    assert row(second).status == "INITIALIZING"
    assert (row(broken).status, "steam" in row(broken).error_message) == ("SCHEDULED", True)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "X-1", "message": "a byte \x00 in the middle", "domain": "external", "retry": "backoff"},
        {"code": "X-" + "9" * 100, "message": "long", "domain": "external", "retry": "backoff"},
    ],
)
def test_words_that_the_database_cannot_store(machine, act, run, row, error):
    machine.drivers[run].ends("FAILED", error=error)
    machine.round()
    assert (row(run).status, row(run).retry_count) == ("SCHEDULED", 1)


def test_a_report_that_nobody_can_read_is_left_out(machine, act, run, row):
    driver = machine.drivers[run]
    driver.epoch(0)
    driver.report("epoch", epoch=1)  # its numbers are missing
    driver.epoch(2)
    machine.round()
    assert row(run).processed_records == 20
    driver.report("result", cause="nothing else")
    machine.round()
    assert (row(run).status, machine.node.runs()) == ("SCHEDULED", {})


def test_link_and_disk_tell_the_same(machine, act, run, row):
    driver = machine.drivers[run]
    driver.epoch(0, rows=5)
    driver.on_report(driver.words[-1])
    for each in driver.words:
        driver.on_report(each)
    machine.round()
    assert row(run).processed_records == 5


def test_secrets_are_sent_again_by_a_new_process(machine, act, run):
    with act() as a:
        a.connection.execute(update(job_version).values(plan={"secrets": ["pw"]}))
    machine.start()
    assert ("secrets", {"pw": "value of pw"}) in machine.drivers[run].asked


def test_a_node_that_slept_does_not_take_its_drivers_for_silent(machine, run, row):
    machine.forward(90)  # the node stood still; what its drivers said meanwhile is not read yet
    machine.node.round()
    assert (row(run).status, machine.drivers.killed) == ("RUNNING", [])


def test_a_promise_counts_from_when_the_renewal_was_sent(machine, run, monkeypatch):
    told = []
    monkeypatch.setattr(machine.drivers[run], "renewed", lambda left, sent: told.append((left, sent)))
    instants = iter([1000.0, 1040.0, 1041.0])
    monkeypatch.setattr(leases_module, "boot_seconds", lambda: next(instants))
    machine.forward(5)
    machine.round()
    assert told == [(15_000, 1000.0)]


def test_a_node_starts_before_its_database(metadata, clock, act, job, row, monkeypatch):
    machine = Machine.__new__(Machine)
    begin, away = metadata.begin, [True]

    def begin_or_not():
        if away[0]:
            raise ExternalFailure("away", code="CTL-002")
        return begin()

    monkeypatch.setattr(metadata, "begin", begin_or_not)
    monkeypatch.setattr(Machine, "start", lambda self: None)
    machine.__init__(metadata, clock)
    monkeypatch.undo()
    real_start = Machine.start
    monkeypatch.setattr(metadata, "begin", begin_or_not)
    with pytest.raises(ExternalFailure):
        real_start(machine)
    machine.round()
    away[0] = False
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    machine.round()
    assert row(run).status == "INITIALIZING"


def test_a_name_is_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    def killed(_):
        raise OSError("killed here")

    monkeypatch.setattr(Path, "replace", lambda *_: killed(_))
    monkeypatch.setattr(Path, "write_text", lambda path, _: path.touch())
    with pytest.raises(OSError, match="killed here"):
        _kept(tmp_path / "node-id")
    monkeypatch.undo()
    assert _kept(tmp_path / "node-id").startswith("node-")


def test_a_stop_and_an_end_do_not_wait_for_each_other(metadata, act, machine, run):
    """Whoever writes down the end of a run locks the run, then its job; a stop must not do it the other way round."""
    if metadata.is_sqlite:
        return
    begun, problems = threading.Event(), []

    def ask():
        begun.set()
        try:
            with acting(metadata, "ada") as a:
                stop(a, run_of(a, run), Wish("drain"))
        except ExternalFailure as problem:
            problems.append(problem)

    with acting(metadata) as a:
        a.connection.execute(update(execution).where(execution.c.execution_id == run).values(row_version=9))
        asking = threading.Thread(target=ask)
        asking.start()
        begun.wait()
        time.sleep(0.5)
        a.connection.execute(update(job_definition).values(desired="STOPPED"))
    asking.join(10)
    assert problems == []


def test_the_next_run_does_not_lose_its_checkpoint(metadata, clock, act, tmp_path, row, monkeypatch):
    """A run that ends clears its checkpoint before anybody can claim the next run of the job, never after."""
    machine = Machine(metadata, clock, drivers=FakeDrivers())
    checkpoint = tmp_path / "orders"
    machine.node._places = machine.node._places._replace(checkpoints=tmp_path)
    with act() as a:
        submit(a, submission("orders", settings={"keep_checkpoint": "never"}))
        run = start(a, "orders", StartOptions()).execution_id
    machine.round()
    machine.drivers[run].runs()
    machine.round()
    (checkpoint / "millstream").mkdir(parents=True)
    forget = machine.node._forget

    def a_new_run_begins(owned):
        (checkpoint / "millstream").mkdir(parents=True)
        (checkpoint / "millstream" / "of the next run").touch()
        forget(owned)

    monkeypatch.setattr(machine.node, "_forget", a_new_run_begins)
    machine.drivers[run].ends("COMPLETED")
    machine.round()
    assert (checkpoint / "millstream" / "of the next run").exists()
