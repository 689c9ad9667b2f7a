"""A node: claims, asks, writes down, watches, adopts, gives up; its drivers are fakes."""

import datetime as dt
import itertools
from pathlib import Path

import pytest
from sqlalchemy import select, update
from tests.unit.control.conftest import silent_for, submission
from tests.unit.control.fake_drivers import FakeDrivers

from millstream.checkpoint.aside import set_aside
from millstream.control.dispatcher.definitions import job_of, submit
from millstream.control.dispatcher.disposing import dispose_asked
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.rescaling import rescale
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.runs import checkpoint, dead_letter, execution, run_event, savepoint
from millstream.control.nodes.node import Node
from millstream.control.nodes.placing import Places
from millstream.control.nodes.registration import Offer, nodes, set_state
from millstream.control.operations import open_operation
from millstream.control.refusals import StateConflict, UnknownName

BOOTS = itertools.count()


class Machine:
    """A node process over drivers that outlive it; time passes for both together."""

    def __init__(self, metadata, clock, name="n1", slots=2, drivers=None):
        self.metadata, self.clock, self.name, self.slots = metadata, clock, name, slots
        self.drivers = drivers or FakeDrivers()
        self.monotonic = 100.0
        self.start()

    def start(self):
        offer = Offer(id=self.name, boot=f"boot-{next(BOOTS)}", slots=self.slots, labels={}, version="0")
        self.node = Node(
            self.metadata,
            offer,
            self.drivers,
            Places(Path("/checkpoints")),
            secrets=lambda _job, names: {name: f"value of {name}" for name in names},
            state_data=lambda run, token: lambda epoch: {"operator_state": {"bytes": 7}},
            monotonic=lambda: self.monotonic,
        )
        self.node.start()

    def round(self, times=1):
        for _ in range(times):
            for driver in self.drivers.drivers.values():
                driver.last_heard = self.monotonic if driver.is_connected and driver.is_alive else driver.last_heard
            self.node.round()

    def forward(self, seconds):
        self.clock.forward(seconds)
        self.monotonic += seconds


@pytest.fixture
def machine(metadata, clock):
    return Machine(metadata, clock)


@pytest.fixture
def run(act, job, machine):
    """A run of `orders` that the machine has claimed."""
    with act() as a:
        started = start(a, "orders", StartOptions(params={"day": 3}, interval_start="2026-01-01"))
    machine.round()
    return started.execution_id


@pytest.fixture
def row(act):
    def read(run):
        with act() as a:
            return run_of(a, run)

    return read


def test_a_run_is_claimed_and_started(machine, run, row):
    spec = machine.drivers[run].spec
    assert (row(run).status, row(run).node_id, spec.token, spec.attempt) == ("INITIALIZING", "n1", 1, 1)
    assert (spec.checkpoint, spec.params) == ("/checkpoints/orders", {"day": 3, "interval_start": "2026-01-01"})
    assert spec.epochs["retained"] == 10


def test_what_it_reports_is_written_down_once(machine, run, row, metadata, act):
    driver = machine.drivers[run]
    driver.runs()
    driver.epoch(0)
    driver.epoch(1, rows=5)
    driver.report("dead_letters", epoch=1, now=1_000, steps={"m": 2})
    machine.round()
    assert (row(run).status, row(run).processed_records, row(run).failed_records) == ("RUNNING", 15, 8)
    machine.start()  # a new process of the node hears everything again
    driver.epoch(2)
    machine.round(2)
    assert row(run).processed_records == 25
    with metadata.begin() as connection:
        kept = connection.execute(select(checkpoint.c.checkpoint_id, checkpoint.c.storage_size_bytes)).all()
        assert kept == [(0, 7), (1, 7), (2, 7)]
        assert connection.execute(select(dead_letter.c.step_uid, dead_letter.c.count)).all() == [("m", 2)]


@pytest.mark.parametrize(
    ("wanted", "status", "ends"), [("drain", "COMPLETED", "COMPLETED"), ("suspend", "SUSPENDED", "SUSPENDED")]
)
def test_an_end_that_was_asked_for(machine, run, row, act, wanted, status, ends):
    driver = machine.drivers[run]
    driver.runs()
    machine.round()
    with act() as a:
        asked = stop(a, run_of(a, run), Wish(wanted))
    machine.round(2)
    assert driver.requests() == [(wanted, asked)]
    driver.report("answer", id=asked, done=True, path="/sp/one", error={})
    driver.ends(ends, savepoint="/sp/one")
    machine.round()
    assert (row(run).status, row(run).end_time is not None, machine.node.runs()) == (status, True, {})
    with act() as a:
        done = a.connection.execute(select(operation).where(operation.c.id == asked)).one()
        assert (done.status, done.result) == ("done", {"status": status, "savepoint": "/sp/one"})
        assert a.connection.execute(select(savepoint.c.path)).scalars().all() == ["/sp/one"]
        assert job_of(a, "orders").desired == "STOPPED"


def test_a_savepoint_while_it_goes_on(machine, run, row, act):
    machine.drivers[run].runs()
    with act() as a:
        asked = [stop(a, run_of(a, run), Wish("export_savepoint")) for _ in range(2)]
    machine.round()
    machine.drivers[run].report("answer", id=asked[0], done=True, path="/sp/x", error={})
    machine.drivers[run].report("answer", id=asked[1], done=False, path="", error={"code": "SAVE-001", "message": "no"})
    machine.round()
    with act() as a:
        ended = dict(a.connection.execute(select(operation.c.id, operation.c.status)).all())
    assert [ended[each] for each in asked] == ["done", "failed"]
    assert row(run).status == "RUNNING"


def test_cancelled_by_force_after_its_time(machine, run, row, act):
    machine.drivers[run].runs()
    machine.round()
    with act() as a:
        asked = stop(a, run_of(a, run), Wish("cancel"))
    machine.round()
    for _ in range(6):
        machine.forward(4)
        machine.round()
    assert row(run).status == "CANCELLING"
    machine.forward(8)
    machine.round()
    assert (row(run).status, machine.drivers.killed) == ("CANCELLED", [(run, 1)])
    with act() as a:
        assert a.connection.execute(select(operation.c.status).where(operation.c.id == asked)).scalar_one() == "done"


def test_a_run_that_fails_is_tried_again_under_a_higher_token(machine, run, row):
    error = {
        "code": "EXT-001",
        "message": "no server",
        "domain": "external",
        "retry": "backoff",
        "step": "out",
        "hint": "x",
    }
    machine.drivers[run].runs()
    machine.drivers[run].ends("FAILED", error=error)
    machine.round()
    assert (row(run).status, row(run).retry_count, row(run).error_message) == (
        "SCHEDULED",
        1,
        "step 'out': no server; fix: x",
    )
    machine.forward(2)
    machine.round()
    assert (row(run).status, row(run).token, row(run).attempt) == ("INITIALIZING", 2, 2)
    assert sorted(machine.drivers.drivers) == [(run, 1), (run, 2)]


def test_what_no_retry_mends_is_dead(machine, run, row):
    machine.drivers[run].ends("FAILED", error={"code": "STEP-001", "message": "x", "domain": "user", "retry": "never"})
    machine.round()
    assert row(run).status == "DEAD"


def test_a_driver_that_dies_without_a_word(machine, run, row):
    machine.drivers[run].runs()
    machine.drivers[run].is_alive = False
    machine.round()
    assert (row(run).status, row(run).error_code, row(run).retry_count) == ("SCHEDULED", "CTL-052", 1)


def test_last_words_that_came_by_the_disk_only(machine, run, row):
    driver = machine.drivers[run]
    driver.runs()
    machine.round()
    driver.is_connected = False
    driver.epoch(0, rows=33)
    driver.ends("COMPLETED")
    machine.round(2)
    assert (row(run).status, row(run).processed_records) == ("COMPLETED", 33)


@pytest.mark.parametrize("is_another_process", [False, True])
def test_what_a_killed_driver_published_while_nobody_listened_counts(machine, run, row, is_another_process):
    driver = machine.drivers[run]
    driver.runs()
    driver.epoch(0, rows=10)
    machine.round()
    driver.is_connected = False
    for number in (1, 2, 3):
        driver.epoch(number, rows=33)
    driver.is_alive = False
    if is_another_process:
        machine.start()
    machine.round(3)
    assert (row(run).status, row(run).error_code) == ("SCHEDULED", "CTL-052")
    assert (row(run).processed_records, row(run).progress["epoch"]) == (10 + 3 * 33, 3)


def test_a_driver_that_hangs_is_asked_and_then_ended(machine, run, row):
    driver = machine.drivers[run]
    driver.runs()
    machine.round()
    driver.is_connected = False
    for _ in range(9):
        machine.forward(4)
        machine.round()
    assert driver.requests() == [("dump", "silent")]
    for _ in range(7):
        machine.forward(4)
        machine.round()
    assert (row(run).status, machine.drivers.killed) == ("SCHEDULED", [(run, 1)])


def test_a_driver_that_cannot_be_started(machine, act, job, row):
    machine.drivers.refuses = OSError("no more processes")
    with act() as a:
        started = start(a, "orders", StartOptions()).execution_id
    machine.round()
    assert (row(started).status, "no more processes" in row(started).error_message) == ("SCHEDULED", True)


def test_leases_are_renewed_and_drivers_told(machine, run):
    for _ in range(10):
        machine.forward(5)
        machine.round()
    told = [left for name, left in machine.drivers[run].asked if name == "renewed"]
    assert told == [15_000] * 11


def test_a_node_that_was_silent_too_long_gives_up(metadata, clock, machine, run, row):
    machine.drivers[run].runs()
    machine.round()
    reconciler = Reconciler(metadata)
    reconciler.round()
    silent_for(16, clock, reconciler)
    machine.monotonic += 16
    other = Machine(metadata, clock, "n2", drivers=FakeDrivers()) if not metadata.is_sqlite else None
    if other is not None:
        other.round()
        assert (row(run).node_id, row(run).token) == ("n2", 2)
    machine.drivers[run].epoch(5)
    machine.round(2)
    if other is not None:
        assert machine.drivers.killed == [(run, 1)]
        assert row(run).processed_records == 0, "a stale report is not written down"
        assert "lease_lost" in kinds(metadata, run)


def kinds(metadata, run):
    with metadata.begin() as connection:
        asked = select(run_event.c.kind).where(run_event.c.execution_id == run)
        return list(connection.execute(asked).scalars())


def test_a_driver_that_finds_a_newer_owner_is_told_of(metadata, machine, run, row):
    machine.drivers[run].runs()
    machine.drivers[run].ends("FAILED", error={"kind": "Fenced", "code": "CKPT-020", "message": "a newer owner"})
    machine.round()
    assert kinds(metadata, run).count("fenced") == 1


def test_its_runs_have_figures_while_they_go_on(machine, run):
    machine.drivers[run].runs()
    machine.drivers[run].epoch(1)
    machine.drivers[run].report("epoch", epoch="none")
    machine.drivers[run].epoch(2)
    (owned,) = machine.node.runs().values()
    told = {each.name: each.value for each in owned.figures.figures(now=0.0)}
    assert (owned.figures.labels, told["rows_in_total"]) == ({"job_name": "orders", "slot": "0"}, 20)


def test_a_new_process_adopts_what_lives_and_loses_what_does_not(machine, act, run, row):
    machine.drivers[run].runs()
    with act() as a:
        submit(a, submission("second"))
        second = start(a, "second", StartOptions()).execution_id
    machine.round()
    machine.drivers[second].runs()
    machine.round()
    machine.drivers[second].is_alive = False
    machine.start()
    machine.drivers[run].epoch(0)
    machine.round()
    assert (row(run).status, row(run).attempt, row(run).processed_records) == ("RUNNING", 1, 10)
    assert (row(second).status, "gone when the node came back" in row(second).error_message) == ("SCHEDULED", True)


def test_claimed_but_never_started(machine, act, job, row, failpoints):
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    failpoints("node_claimed:1:raise")
    machine.round()
    assert row(run).status == "INITIALIZING"
    machine.start()
    assert row(run).status == "SCHEDULED"


def test_slots_are_not_exceeded(metadata, clock, act):
    machine = Machine(metadata, clock, slots=2)
    with act() as a:
        for name in "abc":
            submit(a, submission(name))
            start(a, name, StartOptions())
    machine.round(3)
    assert len(machine.drivers.drivers) == 2


def test_cordon_and_drain(machine, run, act, row):
    machine.drivers[run].runs()
    machine.round()
    with act() as a:
        set_state(a, "n1", "CORDONED")
        submit(a, submission("second"))
        second = start(a, "second", StartOptions()).execution_id
    machine.forward(5)
    machine.round()
    assert row(second).status == "SCHEDULED"
    machine.start()
    machine.forward(5)
    machine.round()
    assert row(second).status == "SCHEDULED", "a cordon outlives the process"
    with act() as a:
        set_state(a, "n1", "DRAINING")
    machine.forward(5)
    machine.round(2)
    assert machine.drivers.stopped == [run]
    machine.drivers[run].ends("CANCELLED")
    machine.round()
    assert (row(run).status, row(run).retry_count, row(run).error_code) == ("SCHEDULED", 0, "CTL-053")


def test_sqlite_is_for_one_node(metadata, clock, machine):
    if metadata.is_sqlite:
        with pytest.raises(StateConflict, match="CTL-040"):
            Machine(metadata, clock, "n2")
        clock.forward(16)
        Machine(metadata, clock, "n2")
    else:
        Machine(metadata, clock, "n2")


def test_nodes_are_listed_without_their_keys(machine, run, act):
    with act() as a:
        (listed,) = nodes(a)
    assert (listed["id"], listed["runs"], listed["age"], "channel_key" in listed) == ("n1", [run], 0, False)


def test_every_event_has_cause_and_actor(machine, run, metadata):
    machine.drivers[run].runs()
    machine.drivers[run].ends("COMPLETED")
    machine.round()
    with metadata.begin() as connection:
        found = connection.execute(select(run_event).order_by(run_event.c.seq)).all()
    assert [(each.to_status, each.actor) for each in found if each.kind != "driver"] == [
        ("SCHEDULED", "ada"),
        ("INITIALIZING", "node:n1"),
        ("RUNNING", "node:n1"),
        ("COMPLETED", "node:n1"),
    ]
    assert all(each.cause for each in found)
    with metadata.begin() as connection:
        assert connection.execute(select(execution.c.status)).scalar_one() == "COMPLETED"


def test_a_run_is_rescaled_as_one_operation(machine, run, row, act):
    machine.drivers[run].runs()
    machine.round()
    with act() as a:
        asked = rescale(a, run_of(a, run), 5)
        with pytest.raises(StateConflict, match="CTL-046"):
            rescale(a, run_of(a, run), 6)
    machine.round()
    assert machine.drivers[run].requests() == [("suspend", asked)]
    machine.drivers[run].report("answer", id=asked, done=True, path="/sp/r", error={})
    machine.drivers[run].ends("SUSPENDED", savepoint="/sp/r")
    machine.round(2)
    with act() as a:
        done = a.connection.execute(select(operation).where(operation.c.id == asked)).one()
        assert job_of(a, "orders").desired == "RUNNING"
        assert (job_of(a, "orders").version, job_of(a, "orders").parallelism) == (2, 5)
    spec = machine.drivers[done.result["run"]].spec
    assert (done.status, spec.parallelism, spec.start, spec.token) == (
        "done",
        5,
        {"from_savepoint": "/sp/r", "on_newer_output": "refuse"},
        2,
    )
    assert spec.params == machine.drivers[run].spec.params


def test_a_rescale_that_ends_otherwise_is_told(machine, run, act):
    machine.drivers[run].runs()
    machine.round()
    with act() as a:
        asked = rescale(a, run_of(a, run), 5)
    machine.round()
    machine.drivers[run].ends("COMPLETED")
    machine.round()
    with act() as a:
        assert a.connection.execute(select(operation.c.status).where(operation.c.id == asked)).scalar_one() == "failed"


def test_an_epoch_that_broke_off_has_a_row(machine, run, metadata):
    driver, error = machine.drivers[run], {"code": "EXT-001", "message": "gone"}
    driver.runs()
    driver.epoch(0)
    driver.report("state", **{"from": "RUNNING", "to": "RUNNING", "cause": "restarts by itself", "error": error})
    machine.round()
    statement = select(checkpoint.c.checkpoint_id, checkpoint.c.status).order_by(checkpoint.c.checkpoint_id)
    with metadata.begin() as connection:
        assert connection.execute(statement).all() == [(0, "COMPLETED"), (1, "FAILED")]
    driver.epoch(1)
    machine.round()
    with metadata.begin() as connection:
        assert connection.execute(statement).all() == [(0, "COMPLETED"), (1, "COMPLETED")]


@pytest.mark.parametrize(
    ("keep", "ends", "is_there"),
    [
        ("always", "COMPLETED", True),
        ("never", "COMPLETED", False),
        ("on_failure", "COMPLETED", False),
        ("never", "SUSPENDED", True),
        ("never", "FAILED", False),
        ("on_failure", "FAILED", True),
    ],
)
def test_what_becomes_of_the_checkpoint(machine, act, row, tmp_path, keep, ends, is_there):
    place = tmp_path / "checkpoint"
    for part in ("millstream", "local", "savepoints/savepoint-one"):
        (place / part).mkdir(parents=True)
    with act() as a:
        submit(a, submission("kept", settings={"keep_checkpoint": keep, "checkpoint": str(place)}))
        run = start(a, "kept", StartOptions()).execution_id
    machine.round()
    machine.drivers[run].runs()
    error = {"code": "STEP-001", "message": "x", "domain": "user", "retry": "never"} if ends == "FAILED" else None
    machine.drivers[run].ends(ends, error=error)
    machine.round()
    assert (place / "millstream").is_dir() is is_there
    assert (place / "savepoints/savepoint-one").is_dir()


@pytest.mark.parametrize("wanted", ["suspend", "drain"])
def test_a_run_that_fails_while_it_is_to_go_keeps_its_checkpoint(machine, act, row, tmp_path, wanted):
    place = tmp_path / "checkpoint"
    (place / "millstream").mkdir(parents=True)
    with act() as a:
        submit(a, submission("kept", settings={"keep_checkpoint": "never", "checkpoint": str(place)}))
        run = start(a, "kept", StartOptions()).execution_id
    machine.round()
    machine.drivers[run].runs()
    machine.round()
    with act() as a:
        stop(a, run_of(a, run), Wish(wanted))
    machine.drivers[run].ends("FAILED", error={"code": "X-1", "message": "x", "domain": "external", "retry": "backoff"})
    machine.round()
    assert row(run).status == "CANCELLED"
    assert (place / "millstream").is_dir()


def test_what_is_no_checkpoint_is_not_removed(tmp_path):
    (tmp_path / "precious").mkdir()
    assert not set_aside(tmp_path)
    assert (tmp_path / "precious").is_dir()


def test_a_secret_that_is_not_there_is_not_tried_again(machine, act, job, row):
    machine.drivers.refuses = UnknownName("there is no such secret", code="CTL-306", hint="set it")
    with act() as a:
        started = start(a, "orders", StartOptions()).execution_id
    machine.round()
    assert (row(started).status, row(started).error_code) == ("DEAD", "CTL-306")


def test_files_of_savepoints_go(metadata, act, tmp_path):
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp" / "savepoint.json").write_text("{}")
    with act() as a:
        there, gone = (
            open_operation(a, "dispose", "savepoint:1", path=str(tmp_path / name)) for name in ("sp", "none")
        )
    assert dispose_asked(metadata) == 1  # files that are not seen here may be seen by another process
    with act() as a:
        longer = a.now - dt.timedelta(seconds=15)
        a.connection.execute(update(operation).where(operation.c.id == gone).values(create_time=longer))
    assert (dispose_asked(metadata), dispose_asked(metadata)) == (1, 0)
    with act() as a:
        ended = dict(a.connection.execute(select(operation.c.id, operation.c.status)).all())
    assert (ended[there], ended[gone], (tmp_path / "sp" / "savepoint.json").exists()) == ("done", "failed", False)
