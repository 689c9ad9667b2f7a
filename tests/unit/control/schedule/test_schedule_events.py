"""Schedules that wait for other jobs, files and calls, over the tables of both databases."""

import os
import threading
import time

import pytest
from schedule_world import HOUR, MINUTE, NOON, SECOND, World
from sqlalchemy import select

from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.schedules import hook, hook_call
from millstream.control.refusals import StateConflict
from millstream.control.schedule import looks as looks_module
from millstream.control.schedule.hooks import receive_call
from millstream.control.schedule.looks import FolderLooks
from millstream.control.schedule.store import delete_schedule, pause_schedule, resume_schedule
from millstream.control.schedule.webhook import BadCall, HookCall, signature_of
from millstream.errors import InvalidStep


@pytest.fixture
def world(metadata):
    return World(metadata)


@pytest.fixture
def chain(world):
    """`report` waits for `orders` and `users`, which run every hour."""
    ids = {name: world.job(name) for name in ("orders", "users", "report")}
    for name in ("orders", "users"):
        world.cron(ids[name], "0 * * * *")
    return ids


def run_of(world, job):
    return world.runs(job)[-1]["execution_id"]


def test_a_job_runs_behind_two_others_of_the_same_fire(world, chain):
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}, {"job": "users"}])
    at = NOON + HOUR
    world.tick(at)
    world.end(run_of(world, chain["orders"]), at + MINUTE)
    assert world.tick(at + MINUTE + SECOND) == []
    world.end(run_of(world, chain["users"]), at + 2 * MINUTE)
    ((fire_time, cause, result),) = world.tick(at + 2 * MINUTE + SECOND)
    assert (fire_time, result, cause.startswith("dep:")) == (at, "FIRED", True)
    assert world.runs(chain["report"])[0]["options"]["interval"] == [NOON.isoformat(), at.isoformat()]
    for later in (3, 62, 120):
        assert world.tick(at + 2 * MINUTE + later * SECOND) == []


def test_an_end_that_no_hint_told_of_is_found_at_the_next_look(world, chain):
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}])
    at = NOON + HOUR
    world.tick(at)
    world.end(run_of(world, chain["orders"]), at + SECOND)
    assert world.tick(at + 10 * SECOND) == [], "the hint is gone, the look not yet due"
    assert len(world.tick(at + 61 * SECOND)) == 1


def test_a_chain_of_three_works_for_one_interval(world, chain):
    last = world.job("mail")
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}])
    world.save(last, type="dependency", upstream=[{"job": "report", "when": "end"}])
    at = NOON + HOUR
    world.tick(at)
    world.end(run_of(world, chain["orders"]), at + SECOND)
    world.tick(at + 2 * SECOND)
    world.end(run_of(world, chain["report"]), at + 3 * SECOND, Status.CANCELLED)
    assert [(each[0], each[2]) for each in world.tick(at + 4 * SECOND)] == [(at, "FIRED")]
    assert world.runs(last)[0]["options"]["interval"] == [NOON.isoformat(), at.isoformat()]


def test_a_failed_upstream_is_a_fire_that_is_skipped(world, chain):
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}])
    world.tick(NOON + HOUR)
    world.end(run_of(world, chain["orders"]), NOON + HOUR + SECOND, Status.DEAD)
    world.tick(NOON + HOUR + 2 * SECOND)
    (fire,) = world.fires(chain["report"])
    assert (fire["result"], fire["reason"]) == ("SKIPPED", "ended otherwise: orders")


def test_ends_before_the_schedule_was_saved_do_not_count(world, chain):
    world.tick(NOON + HOUR)
    world.end(run_of(world, chain["orders"]), NOON + HOUR + SECOND)
    world.save(chain["report"], NOON + HOUR + 2 * SECOND, type="dependency", upstream=[{"job": "orders"}])
    assert world.tick(NOON + HOUR + 63 * SECOND) == []


def test_ends_while_paused_do_not_count(world, chain):
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}])
    with world.metadata.begin() as connection:
        pause_schedule(connection, chain["report"])
    world.tick(NOON + HOUR)
    world.end(run_of(world, chain["orders"]), NOON + HOUR + SECOND)
    assert world.tick(NOON + HOUR + 2 * SECOND) == []
    with world.metadata.begin() as connection:
        resume_schedule(connection, chain["report"], now=NOON + HOUR + MINUTE)
    assert world.tick(NOON + HOUR + 3 * MINUTE) == []


def test_a_circle_is_refused_on_save(world, chain):
    world.save(chain["report"], type="dependency", upstream=[{"job": "orders"}])
    world.save(chain["users"], type="event", event={"finished": "report"})
    with pytest.raises(StateConflict, match="orders waits for users waits for report waits for orders"):
        world.save(chain["orders"], type="dependency", upstream=[{"job": "users"}])
    with pytest.raises(InvalidStep, match="CTL-213"):
        world.save(chain["orders"], type="dependency", upstream=[{"job": "nothing"}])


def test_every_run_that_ends_fires_once(world, chain):
    world.save(
        chain["report"], type="event", event={"finished": "orders", "param": "source_run"}, concurrency="queue(9)"
    )
    for hour in (1, 2):
        at = NOON + hour * HOUR
        world.tick(at)
        world.end(run_of(world, chain["orders"]), at + SECOND)
        world.end(run_of(world, chain["users"]), at + SECOND)
        world.tick(at + 2 * SECOND)
        world.tick(at + 3 * SECOND)
    fires = world.fires(chain["report"])
    runs = [run["execution_id"] for run in world.runs(chain["orders"])]
    assert [(fire["cause"], fire["result"]) for fire in fires] == [
        (f"event:{runs[0]}", "FIRED"),
        (f"event:{runs[1]}", "QUEUED"),
    ]
    assert world.runs(chain["report"])[0]["options"]["params"] == {"source_run": runs[0]}
    world.end(run_of(world, chain["report"]), NOON + 3 * HOUR)
    world.tick(NOON + 3 * HOUR)
    assert world.runs(chain["report"])[1]["options"]["params"] == {"source_run": runs[1]}


def test_a_folder_that_hangs_keeps_no_other_schedule_waiting(world, tmp_path, monkeypatch):
    waits, hangs, looked = tmp_path / "waits", threading.Event(), []
    real = looks_module.listed

    def listed(pattern, roots):
        looked.append(pattern)
        if pattern.startswith(str(waits)):
            hangs.wait(30)
        return real(pattern, roots)

    monkeypatch.setattr(looks_module, "listed", listed)
    waits.mkdir()
    (tmp_path / "other").mkdir()
    for folder in (waits, tmp_path / "other"):
        world.save(world.job(folder.name), type="event", event={"file": f"{folder}/*", "poll": "1s"}, roots=[tmp_path])
    clock = world.job("clock")
    world.cron(clock, "* * * * *")
    looks = FolderLooks(patience=0.2)
    world.tick(NOON, roots=[tmp_path], looks=looks)
    for folder in ("waits", "other"):
        (tmp_path / folder / "a").write_text("x")
    begun = time.monotonic()
    for second in range(1, 61):
        world.tick(NOON + second * SECOND, roots=[tmp_path], looks=looks)
    assert time.monotonic() - begun < 20
    assert len([each for each in looked if each.startswith(str(waits))]) == 1, "one look hangs, and no more"
    assert sorted(run["job_name"] for run in world.runs()) == ["clock", "other"]
    hangs.set()
    for second in range(61, 70):
        time.sleep(0.05)
        world.tick(NOON + second * SECOND, roots=[tmp_path], looks=looks)
    (waits / "b").write_text("y")
    for second in range(70, 75):
        world.tick(NOON + second * SECOND, roots=[tmp_path], looks=looks)
    assert sorted(run["job_name"] for run in world.runs()) == ["clock", "other", "waits"]


def test_files_that_arrive_fire_once_each(world, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "old.csv").write_text("1")
    job = world.job()
    event = {"file": f"{folder}/*.csv", "poll": "10s", "param": "path"}
    world.save(job, type="event", event=event, concurrency="allow(9)", roots=[folder])

    def look(seconds):
        return [cause for _, cause, _ in world.tick(NOON + seconds * SECOND, roots=[folder])]

    assert look(0) == []
    (folder / "new.csv").write_text("1")
    assert look(5) == look(10) == []
    (folder / "new.csv").write_text("12")
    assert look(20) == []
    (cause,) = look(30)
    assert look(40) == look(50) == []
    assert world.runs()[0]["options"]["params"] == {"path": f"{folder}/new.csv"}
    facts = os.stat(folder / "new.csv")
    os.utime(folder / "new.csv", ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    assert look(60) == []
    (again,) = look(70)
    assert again != cause


def test_a_folder_outside_is_refused(world, tmp_path):
    with pytest.raises(InvalidStep, match="CTL-207"):
        world.save(world.job(), type="event", event={"file": "/etc/*"}, roots=[tmp_path])


SECRET = b"hush"


@pytest.fixture
def hooked(world):
    job = world.job()
    world.save(
        job, type="event", event={"webhook": "ready", "secret": "ready-key", "param": "body"}, concurrency="queue(9)"
    )
    return job


def send(world, call_id="c1", *, at=NOON, body=b"{}", sent=None, key=SECRET, name="ready"):
    time = str(int((sent or at).timestamp()))
    call = HookCall(call_id, time, signature_of(key, time, call_id, body), body)
    with world.metadata.begin() as connection:
        secrets = {"ready-key": SECRET}
        return receive_call(connection, name, call, secret=lambda _, found: secrets.get(found), now=at, acts=world.acts)


def test_a_call_fires_with_its_body(world, hooked):
    assert send(world, body=b'{"n": 1}').result == "FIRED"
    (run,) = world.runs()
    assert (run["trigger_id"], run["options"]["params"]) == (f"event:c1@{NOON.isoformat()}", {"body": '{"n": 1}'})
    assert send(world, "c2", body=b"two").result == "QUEUED"
    world.end(run["execution_id"], NOON + SECOND)
    world.tick(NOON + SECOND)
    assert world.runs()[1]["options"]["params"] == {"body": "two"}


@pytest.mark.parametrize("more", [{}, {"at": NOON + MINUTE}, {"body": b"other"}, {"at": NOON + MINUTE, "sent": NOON}])
def test_a_call_that_is_repeated_is_refused(world, hooked, more):
    send(world)
    with pytest.raises(StateConflict, match="CTL-220"):
        send(world, **more)
    assert len(world.runs()) == len(world.fires()) == 1


def test_a_wrong_call_leaves_nothing(world, hooked):
    for wrong in ({"key": b"other"}, {"sent": NOON - HOUR}, {"body": b"\xff"}, {"body": b"x" * 20_000}):
        with pytest.raises(BadCall):
            send(world, **wrong)
    with pytest.raises(BadCall, match="CTL-221"):
        send(world, name="other")
    assert (world.runs(), world.fires()) == ([], [])
    assert send(world).result == "FIRED", "its id was not spent"


def test_ids_are_forgotten_when_no_call_with_them_could_be_fresh(world, hooked):
    send(world, "c1")
    send(world, "c2", at=NOON + 16 * MINUTE)
    with world.metadata.begin() as connection:
        assert connection.execute(select(hook_call.c.call_id)).scalars().all() == ["c2"]


def test_a_hook_belongs_to_one_job(world, hooked):
    other = world.job("other")
    event = {"webhook": "ready", "secret": "ready-key"}
    with pytest.raises(StateConflict, match="CTL-212"):
        world.save(other, type="event", event=event)
    world.save(hooked, type="event", event={**event, "webhook": "renamed"})
    world.save(other, type="event", event=event)
    with world.metadata.begin() as connection:
        delete_schedule(connection, other)
        assert connection.execute(select(hook.c.name)).scalars().all() == ["renamed"]


def test_a_paused_hook_takes_no_call(world, hooked):
    with world.metadata.begin() as connection:
        pause_schedule(connection, hooked)
    with pytest.raises(StateConflict, match="CTL-214"):
        send(world)
    with world.metadata.begin() as connection:
        resume_schedule(connection, hooked, now=NOON)
    assert send(world).result == "FIRED"
