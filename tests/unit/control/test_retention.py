"""What the service forgets: rows that are too old, in batches, and folders of runs that ended."""

import datetime as dt
import itertools
import os

import pytest
from sqlalchemy import func, insert, select
from tests.unit.control.test_node import Machine

from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.metadata import retention
from millstream.control.metadata.retention import Retention
from millstream.control.metadata.tables.access import audit, operation
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import checkpoint, dead_letter, execution, run_event, savepoint
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.nodes import calling
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.nodes.folders import clear_folders

DAY = dt.timedelta(days=1)


@pytest.fixture
def count(metadata):
    def rows(table):
        with metadata.begin() as connection:
            return connection.execute(select(func.count()).select_from(table)).scalar_one()

    return rows


def test_events_operations_fires_and_audit(metadata, clock, act, job, count, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 7)
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
        event = {"execution_id": run, "kind": "x", "cause": "y", "actor": "z", "token": 0}
        ended = {"actor": "a", "route": "r", "body_sha256": "", "kind": "k", "target": "t", "answer_code": "202"}
        for number in range(20):
            at = clock.now - number * 20 * DAY
            a.connection.execute(insert(run_event).values(**event, seq=100 + number, time=at))
            status = {"status": "done", "end_time": at} if number else {"status": "pending"}
            values = {**ended, **status, "id": f"o{number}", "idempotency_key": f"{number}", "create_time": at}
            a.connection.execute(insert(operation).values(**values))
            told = {"actor": "a", "action": "x", "target": "t", "result": "done"}
            a.connection.execute(insert(audit).values(**told | {"time": clock.now - number * 50 * DAY}))
            fire = {"job_id": job.id, "cause": "cron", "result": "FIRED", "revision": 1, "time_zone": "UTC"}
            fired = clock.now - number * 50 * DAY
            a.connection.execute(insert(schedule_fire).values(**fire, fire_time=fired, decided_at=fired))
    Retention(metadata).round()
    assert [count(table) for table in (run_event, operation, audit, schedule_fire)] == [3, 1, 9, 9]
    assert Retention(metadata).round() == 0


def test_checkpoints_by_job_and_runs_by_age_and_number(metadata, clock, act, job, count):
    with act() as a:
        for number in range(110):
            run = start(a, "orders", StartOptions()).execution_id
            age = clock.now - (300 - number) * DAY
            a.connection.execute(
                execution.update().where(execution.c.execution_id == run).values(status="COMPLETED", end_time=age)
            )
            made = {"execution_id": run, "checkpoint_type": "CHECKPOINT", "status": "COMPLETED", "token": 1}
            a.connection.execute(insert(checkpoint).values(**made, checkpoint_id=0, create_time=age))
            if number == 0:
                kept = {"job_id": job.id, "trigger_id": "s", "format": "canonical", "path": "/sp", "status": "READY"}
                a.connection.execute(insert(savepoint).values(**kept, execution_id=run, create_time=age))
        start(a, "orders", StartOptions())
    Retention(metadata).round()
    assert [count(table) for table in (execution, checkpoint, savepoint)] == [100, 10, 1]
    assert Retention(metadata).round() == 0


def test_letters_of_a_run_that_lasts_are_kept_by_step(metadata, clock, act, job, count, monkeypatch):
    monkeypatch.setattr(retention, "KEPT_LETTERS", 5)
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
        for number, step in itertools.product(range(8), ("seldom", "often")):
            if step == "often" or number < 3:
                row = {"execution_id": run, "epoch": number, "step_uid": step, "reason": "r", "count": 1}
                a.connection.execute(insert(dead_letter).values(**row, create_time=clock.now))
    Retention(metadata).round()
    with act() as a:
        left = select(dead_letter.c.step_uid, dead_letter.c.epoch).order_by(dead_letter.c.id)
        found = [tuple(row) for row in a.connection.execute(left)]
    assert sorted(found) == [("often", each) for each in range(3, 8)] + [("seldom", each) for each in range(3)]
    assert Retention(metadata).round() == 0


def test_nodes_that_are_gone_and_savepoints_that_were_disposed_of(metadata, clock, act, job):
    told = {"boot": "b", "slots": 1, "labels": {}, "version": "0", "details": {}, "started_at": clock.now}
    known = {"job_id": job.id, "format": "canonical", "path": "/sp"}
    kept = {"route": "r", "body_sha256": "", "answer_code": "202", "kind": "dispose", "status": "done"}
    with act() as a:
        busy = start(a, "orders", StartOptions()).execution_id
        a.connection.execute(execution.update().where(execution.c.execution_id == busy).values(node_id="busy"))
        seen = {"gone": 31, "crashed": 31, "lately": 29, "cordoned": 99, "busy": 31}
        states = {"gone": "GONE", "lately": "GONE", "cordoned": "CORDONED"}
        for name, days in seen.items():
            state = states.get(name, "ACTIVE")
            a.connection.execute(insert(node).values(**told, id=name, state=state, heartbeat_at=clock.now - days * DAY))
        for name, status, days in [
            ("old", "DISPOSED", 181), ("asked", "DISPOSED", 182), ("young", "DISPOSED", 179), ("ready", "READY", 999)
        ]:  # fmt: skip
            made = insert(savepoint).values(**known, trigger_id=name, status=status, create_time=clock.now - days * DAY)
            made = a.connection.execute(made.returning(savepoint.c.id)).scalar_one()
            if name == "asked":
                lately = {"create_time": clock.now, "end_time": clock.now, "idempotency_key": "k"}
                a.connection.execute(
                    insert(operation).values(**kept, **lately, id="o", actor="a", target=f"savepoint:{made}")
                )
    Retention(metadata).round()
    with act() as a:
        assert set(a.connection.execute(select(node.c.id)).scalars()) == {"lately", "cordoned", "busy"}
        assert set(a.connection.execute(select(savepoint.c.trigger_id)).scalars()) == {"asked", "young", "ready"}
    assert Retention(metadata).round() == 0


def test_a_run_that_lasts_is_never_forgotten(metadata, clock, act, job, count):
    machine = Machine(metadata, clock)
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    machine.round()
    clock.forward(500 * 86_400)
    Retention(metadata).round()
    assert (count(execution), machine.drivers[run].is_alive) == (1, True)


def test_folders_of_old_runs_go_and_living_ones_stay(tmp_path):
    for number in range(6):
        folder = tmp_path / f"run{number}.1"
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        os.utime(folder / "run.json", (number * 86_400, number * 86_400))
    assert clear_folders(tmp_path, {"run0.1"}, now=10 * 86_400 + 1) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0.1", "run4.1", "run5.1"]


def test_a_run_that_goes_on_is_found_when_its_events_are_forgotten(metadata, clock, act, job, monkeypatch):
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    machine = Machine(metadata, clock)
    machine.node.start()
    machine.round()
    with act() as a:
        a.connection.execute(node.update().values(address="http://node:1", channel_key="k"))
    clock.forward(40 * 86_400)
    Retention(metadata).round()
    asked = []
    monkeypatch.setattr(
        calling, "answered_by", lambda url, key, **more: asked.append((url, more["token"])) or ["driver.log"]
    )
    assert ChannelCalls(metadata).logs(run) == ["driver.log"]
    assert asked == [(f"http://node:1/runs/{run}/logs", 1)]
