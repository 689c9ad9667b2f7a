"""Starts that have to find a checkpoint, removals that are taken back, and the checkpoints of every slot of a job."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.unit.control.conftest import submission
from tests.unit.control.test_node import Machine

from millstream.checkpoint.head import HEAD, Head, encode_head
from millstream.contract.driver_protocol import RunSpec
from millstream.control.dispatcher.definitions import delete, new_version, submit
from millstream.control.dispatcher.keeping import checkpoints, drop_checkpoint
from millstream.control.dispatcher.removing import removing
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.metadata.retention import Retention
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes.placing import checkpoint_of
from millstream.control.refusals import StateConflict
from millstream.control.settings import settings_of
from millstream.driver.service.expected_state import refuse_lost
from millstream.errors import CheckpointRefused, ExternalFailure


class Stored:
    """Runs of jobs whose drivers write manifests under a folder of the test, as far as anybody looks."""

    def __init__(self, machine, act, root):
        self.machine, self.act, self.root = machine, act, root
        machine.node._places = machine.node._places._replace(checkpoints=root)
        machine.node._state_data = self._state_data
        self.has_manifests = True

    def _state_data(self, run, token):
        path = self.machine.drivers.drivers[run, token].spec.checkpoint
        data = {"operator_state": {"bytes": 7}, "path": path}
        return lambda epoch: data if self.has_manifests else None

    def begun(self, job="orders", slot=0, **options):
        with self.act() as a:
            run = start(a, job, StartOptions(**options), slot=slot).execution_id
        self.machine.round()
        self.machine.drivers[run].runs()
        return self.machine.drivers[run]

    def published(self, job="orders", slot=0, ends="CANCELLED", **options):
        """A run that published an epoch and ended."""
        driver = self.begun(job, slot, **options)
        self.write(driver.spec.checkpoint)
        driver.epoch(0)
        self.end(driver, ends)
        return driver

    def end(self, driver, ends="CANCELLED"):
        with self.act() as a:
            a.connection.execute(update(execution).where(execution.c.wanted.is_(None)).values(wanted="cancel"))
        driver.ends(ends)
        self.machine.round()

    @staticmethod
    def write(checkpoint):
        folder = Path(checkpoint)
        (folder / "millstream").mkdir(parents=True, exist_ok=True)
        head = Head(job="orders", lineage="0" * 16, token=1)
        (folder / "millstream" / HEAD).write_bytes(encode_head(head))


@pytest.fixture
def stored(metadata, clock, act, job, tmp_path):
    return Stored(Machine(metadata, clock, slots=4), act, tmp_path / "checkpoints")


def test_a_start_has_to_find_what_earlier_runs_stored(stored):
    first = stored.published()
    assert not first.spec.expects_state
    second = stored.begun()
    assert second.spec.expects_state
    refuse_lost(second.spec)
    shutil.rmtree(second.spec.checkpoint)
    with pytest.raises(CheckpointRefused) as refused:
        refuse_lost(second.spec)
    assert (refused.value.code, second.spec.checkpoint in str(refused.value)) == ("CKPT-067", True)


@pytest.mark.parametrize("options", [{"ignore_state_once": True}, {"from_savepoint": "/sp"}])
def test_who_gives_the_state_up_need_not_find_it_but_the_next_attempt_does(stored, options):
    stored.published()
    driver = stored.begun(**options)
    assert not driver.spec.expects_state
    refuse_lost(driver.spec)
    driver.epoch(0)
    driver.ends("FAILED", error={"code": "X-1", "message": "x", "domain": "external", "retry": "backoff"})
    stored.machine.round()
    stored.machine.forward(60)
    stored.machine.round()
    assert stored.machine.drivers[driver.spec.run].spec.expects_state


def test_epochs_without_manifests_and_other_slots_and_places_are_not_expected(stored, act):
    stored.has_manifests = False
    stored.published()
    stored.has_manifests = True
    stored.published(slot=1)
    third = stored.published()
    assert not third.spec.expects_state, "best_effort keeps no manifests, and the slot is another's"
    with act() as a:
        elsewhere = {"checkpoint": str(stored.root / "elsewhere")}
        new_version(a, "orders", submission(settings=elsewhere), expected=None)
    assert not stored.published().spec.expects_state
    with act() as a:
        new_version(a, "orders", submission(), expected=None)
    assert stored.begun().spec.expects_state, "what was stored in the first place is still known"


def test_retention_of_other_slots_and_of_epochs_that_failed_forgets_no_stored_state(stored, metadata):
    stored.published()
    for _ in range(12):
        driver = stored.begun(slot=7)
        driver.epoch(0)
        driver.report("state", **{"from": "RUNNING", "to": "RUNNING", "cause": "x", "error": {"code": "X-1"}})
        stored.end(driver)
    Retention(metadata).round()
    assert stored.begun().spec.expects_state


def test_what_we_removed_is_not_expected(stored, act):
    stored.published()
    stored.published(slot=3)
    with removing() as aside, act() as a:
        removed = drop_checkpoint(a, "orders", stored.root, aside)
    assert removed == [str(stored.root / "orders"), str(stored.root / "orders@slot-3")]
    assert list(stored.root.iterdir()) == []
    assert not stored.begun().spec.expects_state
    assert not stored.begun(slot=3).spec.expects_state


def test_a_job_that_keeps_nothing_begins_afresh(stored, act):
    with act() as a:
        submit(a, submission("short", settings={"keep_checkpoint": "never"}))
    first = stored.published("short", ends="COMPLETED")
    assert not Path(first.spec.checkpoint).exists()
    assert not stored.begun("short").spec.expects_state


def test_a_removal_that_is_undone_is_put_back(stored, act):
    spec = stored.published().spec
    with pytest.raises(ExternalFailure), removing() as aside, act() as a:
        drop_checkpoint(a, "orders", stored.root, aside)
        assert not (Path(spec.checkpoint) / "millstream").exists(), "removed beside the act"
        raise ExternalFailure("the database went away")
    again = stored.begun().spec
    assert again.expects_state
    refuse_lost(again)
    assert [path.name for path in Path(spec.checkpoint).iterdir()] == ["millstream"]


def test_a_process_that_died_while_it_removed_a_checkpoint_removed_nothing(stored, act):
    spec = stored.published().spec
    with pytest.raises(KeyboardInterrupt), act() as a:
        drop_checkpoint(a, "orders", stored.root, [])
        raise KeyboardInterrupt
    assert not (Path(spec.checkpoint) / "millstream").exists()
    refuse_lost(stored.begun().spec)
    assert (Path(spec.checkpoint) / "millstream" / HEAD).is_file()


def test_nobody_waits_while_a_checkpoint_is_removed(stored, act, metadata, monkeypatch):
    stored.published()
    removed = shutil.rmtree

    def slowly(path):
        with metadata.begin() as connection:  # on SQLite one writes at a time
            connection.execute(update(execution).values(retry_count=0))
        removed(path)

    monkeypatch.setattr("millstream.control.dispatcher.removing.shutil.rmtree", slowly)
    with removing() as aside, act() as a:
        drop_checkpoint(a, "orders", stored.root, aside)
    assert not (stored.root / "orders").exists()


def test_slots_collide_with_no_job_and_are_listed(stored, act):
    name = checkpoint_of(settings_of({}), stored.root, "orders", 1)
    assert name != checkpoint_of(settings_of({}), stored.root, "orders-slot-1", 0)
    with act() as a:
        submit(a, submission("orders-slot-1"))
    for job, slot in (("orders", 0), ("orders", 1), ("orders", 1000), ("orders-slot-1", 0)):
        stored.published(job, slot)
    with act() as a:
        listed = [(each["job"], each["path"].rpartition("/")[2]) for each in checkpoints(a, stored.root)]
    assert listed == [
        ("orders", "orders"),
        ("orders", "orders@slot-1"),
        ("orders", "orders@slot-1000"),
        ("orders-slot-1", "orders-slot-1"),
    ]


def test_checkpoints_of_deleted_jobs_are_removed_too(stored, act):
    stored.published()
    with act() as a:
        delete(a, "orders")
    with removing() as aside, act() as a:
        assert drop_checkpoint(a, "orders", stored.root, aside) == [str(stored.root / "orders")]
    with act() as a:
        assert checkpoints(a, stored.root) == []


def test_a_new_job_of_a_deleted_name_takes_no_checkpoint_over(stored, act):
    stored.published()
    with act() as a:
        delete(a, "orders")
    with pytest.raises(StateConflict, match="CTL-062") as refused, act() as a:
        submit(a, submission("orders"))
    assert str(stored.root / "orders") in str(refused.value)
    with removing() as aside, act() as a:
        drop_checkpoint(a, "orders", stored.root, aside)
    with act() as a:
        submit(a, submission("orders"))
    assert not stored.begun().spec.expects_state


def test_a_run_that_goes_on_keeps_its_checkpoint(stored, act):
    stored.published()
    stored.begun()
    with pytest.raises(StateConflict), removing() as aside, act() as a:
        drop_checkpoint(a, "orders", stored.root, aside)
    assert (stored.root / "orders" / "millstream").is_dir()


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_manifests_that_lie_elsewhere_are_the_checkpoint(tmp_path, scheme):
    lost = {"run": "r", "token": 2, "job": "j", "definition": {}, "expects_state": True}
    spec = RunSpec(**lost, checkpoint=str(tmp_path / "c"), manifests=f"{scheme}{tmp_path}/m")
    with pytest.raises(CheckpointRefused, match="gone") as refused:
        refuse_lost(spec)
    assert refused.value.code == "CKPT-067"
    if not scheme:
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / HEAD).write_bytes(encode_head(Head(job="j", lineage="0" * 16, token=1)))
        refuse_lost(spec)
