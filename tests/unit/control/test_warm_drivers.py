"""Drivers that wait for a run: who takes one, what the run says of it, and that none is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import select
from test_real_drivers import SmallService, bounded, endless

import millstream as ms
from millstream.contract.driver_protocol import RunSpec
from millstream.contract.run_folder import DriverFolder
from millstream.contract.warm_start import WarmWish, differences, why_never, wish_of
from millstream.control.act import acting
from millstream.control.dispatcher.stopping import Wish
from millstream.control.drivers.launch import launch
from millstream.control.drivers.processes import is_alive, kill
from millstream.control.drivers.warm_pool import WarmLimits, WarmPool, tending, wanted
from millstream.control.metadata.tables.runs import run_event
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode

CANARY = "canary-5f2e9a"


def spec(**more):
    values = {"run": "r1", "token": 1, "job": "orders", "definition": {}, "checkpoint": "/nowhere"}
    return RunSpec(**{**values, **more})


def until(holds, seconds=40):
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)
    return found


# What is decided, without any process.


def test_a_wish_is_what_cannot_be_changed_later():
    settings = {"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "2g"}
    one = wish_of(spec(confs=settings, master="local[2]"), "e1")
    assert one.confs == {"spark.driver.memory": "2g"}
    assert differences(one, wish_of(spec(confs=settings, master="local[2]"), "e1")) == []
    other = wish_of(spec(master="local[3]", state_backend="memory"), "e2")
    assert differences(one, other) == ["master", "state_backend", "confs", "environment"]
    assert wish_of(spec(engine="local", master="local[9]", confs=settings), "e1") == WarmWish(
        engine="local", environment="e1"
    )


@pytest.mark.parametrize(
    ("confs", "why"),
    [
        ({"spark.hadoop.fs.s3a.secret.key": "${secret:S3}"}, "name secrets"),
        ({"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}, "hold a secret"),
        ({"spark.ui.enabled": "true"}, None),
    ],
)
def test_a_run_with_secrets_in_its_settings_is_never_warm(confs, why):
    told = why_never(spec(confs=confs))
    assert told is None if why is None else why in told


def test_the_newest_wishes_are_kept_warm():
    a, b, c = (WarmWish(engine="local", environment=name) for name in "abc")
    assert wanted([a, b, c], 2) == [a, b]
    assert wanted([a, b], 4) == [a, b, a, a]
    assert wanted([a], 0) == wanted([], 3) == []


class Waiting:
    def __init__(self, wish, *, is_ready=True):
        self.wish, self.is_ready = wish, is_ready


def test_one_at_a_time_is_started_and_none_beside_the_start_of_a_run():
    a, b = (WarmWish(engine="local", environment=name) for name in "ab")
    old = Waiting(b)
    plan = tending([old], [a], is_busy=False)
    assert (plan.start, plan.end) == (a, [old])
    assert tending([old], [a], is_busy=True).start is None
    assert tending([Waiting(a, is_ready=False)], [a, a], is_busy=False).start is None
    assert tending([Waiting(a)], [a], is_busy=False).start is None


# With processes.


class WarmService(SmallService):
    limits = WarmLimits(local=1)

    def start(self):
        places = (self.folder / name for name in ("node", "checkpoints", "artifacts", "keys.json"))
        options = NodeOptions(*places, warm=self.limits)
        self.node = RunningNode(self.metadata, options)
        self.plane = ControlPlane(self.metadata, self.node)
        self.plane.start()

    def ready(self, other_than=None):
        """The process that waits."""

        def found():
            waiting = [each.identity.pid for each in self.node._warm._processes if each.is_ready]
            return next((pid for pid in waiting if pid != other_than), None)

        return until(found)

    def beginning(self, run):
        """What is known of how a run began: while it runs, and for good."""
        with acting(self.metadata) as act:
            told = select(run_event.c.cause).where(run_event.c.execution_id == run, run_event.c.kind == "driver")
            return act.connection.execute(told).scalars().all()


@pytest.fixture
def service(tmp_path):
    made = WarmService(tmp_path)
    yield made
    made.plane.stop()
    for path in tmp_path.glob("node/runs/*/driver.json"):
        kill(DriverFolder(path.parent).read_identity())
    made.metadata.close()


def test_a_run_is_taken_by_the_process_that_waits_and_the_next_by_another(service, tmp_path):
    first = service.ready()
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 0)
    assert service.driver(run) == os.getsid(first) == first
    hello = service.node._node.runs()[run].live.newest("hello")
    assert (hello["warm"], hello["why"]) == (True, "it asks for what the process was started with")
    assert service.beginning(run) == ["a warm driver has taken the run: it asks for what the process was started with"]
    (folder,) = tmp_path.glob(f"node/runs/{run}.*")
    assert Path(f"/proc/{first}/cwd").readlink() == folder / "work"
    assert "run started" in (folder / "logs" / "driver.log").read_text()
    assert "warm-up" not in (folder / "logs" / "driver.log").read_text()
    second = service.ready(other_than=first)
    again = service.submit(endless(tmp_path / "b", "other"))
    service.until(again, lambda row: row.processed_records > 0)
    assert service.driver(again) == second != first
    for each in (run, again):
        assert service.ask(each, Wish("cancel")).result["status"] == "CANCELLED"
    until(lambda: not Path(f"/proc/{first}").exists() or not is_alive(DriverFolder(folder).read_identity()))


def test_a_warm_run_gives_the_rows_of_a_cold_one(service, tmp_path):
    service.ready()
    run = service.submit(bounded(tmp_path))
    row = service.until(run, lambda row: row.status == "COMPLETED")
    assert (row.processed_records, row.attempt) == (500, 1)
    assert ms.read_files(tmp_path / "out").num_rows == 500


def test_another_environment_is_another_wish(service, tmp_path, monkeypatch):
    first = service.ready()
    monkeypatch.setenv("MILLSTREAM_SOMETHING", "new")
    run = service.submit(bounded(tmp_path))
    service.until(run, lambda row: row.status == "COMPLETED")
    assert service.beginning(run) == ["the driver process has started: warm drivers have other settings: environment"]
    # From then on one for such runs waits, and the other one is gone.
    second = service.ready(other_than=first)
    until(lambda: not Path(f"/proc/{first}").exists())
    assert b"MILLSTREAM_SOMETHING=new" in Path(f"/proc/{second}/environ").read_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_gone_or_hangs_is_replaced_by_a_cold_start(tmp_path, how):
    pool = WarmPool(tmp_path / "warm", WarmLimits(local=1))
    until(lambda: pool.tend() or any(each.is_ready for each in pool._processes))
    (process,) = pool._processes
    os.kill(process.identity.pid, how)
    folder, run = DriverFolder(tmp_path / "run"), coded(tmp_path)
    taken, why = pool.taken(folder, run)
    assert (taken, why) == (None, "a warm driver did not take it: it is gone")
    assert not is_alive(process.identity)
    identity = launch(folder, run)
    until(lambda: folder.read_result() is not None)
    assert folder.read_result().body["status"] == "COMPLETED"
    assert (folder.work / "written.txt").read_text() == "1"
    kill(identity)
    pool.close()


CODE = """
import os
import millstream as ms
import beside

def note(row):
    with open("written.txt", "w") as file:
        file.write(str(beside.ONE))
    return row

job = ms.Job("coded", guarantee="at_least_once")
job.source("rows", ms.memory([{"n": 1}]), schema="n long").map(note, schema="n long").sink("out", ms.print())
"""


def coded(folder, **more):
    """A run of a job in code, with a module beside it, that writes a file where it works."""
    code = folder / "code"
    code.mkdir()
    (code / "job.py").write_text(CODE)
    (code / "beside.py").write_text("ONE = 1\n")
    definition = {"kind": "code", "entry": "job.py:job"}
    checkpoint = str(folder / "checkpoint")
    return spec(engine="local", definition=definition, code=str(code), checkpoint=checkpoint, **more)


def test_code_of_a_run_is_found_and_works_in_its_folder(tmp_path):
    pool = WarmPool(tmp_path / "warm", WarmLimits(local=1))
    until(lambda: pool.tend() or any(each.is_ready for each in pool._processes))
    folder = DriverFolder(tmp_path / "run")
    identity, _ = pool.taken(folder, coded(tmp_path, token=7))
    until(lambda: folder.read_result() is not None)
    assert folder.read_result().body["status"] == "COMPLETED", folder.log.read_text()
    assert (folder.work / "written.txt").read_text() == "1"
    assert (identity.token, folder.read_identity()) == (7, identity)
    assert folder.root.stat().st_mode & 0o777 == folder.work.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "warm").iterdir()) == []
    pool.close()


def test_a_pool_that_is_switched_off_starts_nothing(tmp_path):
    pool = WarmPool(tmp_path / "warm", WarmLimits())
    pool.tend()
    assert pool._processes == []
    assert pool.taken(DriverFolder(tmp_path / "run"), spec()) == (None, "no drivers are kept warm for its engine")


def test_nothing_is_started_while_a_run_starts(tmp_path):
    now = [0.0]
    pool = WarmPool(tmp_path / "warm", WarmLimits(local=1), monotonic=lambda: now[0])
    pool.taken(DriverFolder(tmp_path / "run"), spec(engine="local"))
    pool.tend()
    assert pool._processes == []
    assert (pool.has_started("r1"), pool.has_started("r1")) == (True, False)
    pool.taken(DriverFolder(tmp_path / "run"), spec(engine="local", run="r2"))
    now[0] = 61.0  # nobody waits for a start that long
    pool.tend()
    assert len(pool._processes) == 1
    pool.close()


POOL = """
import sys, time
from pathlib import Path
from millstream.control.drivers.warm_pool import WarmLimits, WarmPool

pool = WarmPool(Path(sys.argv[1]), WarmLimits(local=1))
pool.tend()
print(pool._processes[0].identity.pid, flush=True)
for _ in range(600):
    pool.tend()
    if pool._processes[0].is_ready:
        print("ready", flush=True)
    time.sleep(0.1)
"""


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_node_that_is_killed_leaves_none_behind(tmp_path, is_ready):
    with subprocess.Popen([sys.executable, "-c", POOL, tmp_path / "warm"], stdout=subprocess.PIPE, text=True) as node:
        pid = int(node.stdout.readline())
        if is_ready:
            assert node.stdout.readline() == "ready\n"
        node.kill()
    until(lambda: _is_gone(pid), seconds=10)
    # The next process of the node begins with an empty folder.
    WarmPool(tmp_path / "warm", WarmLimits())
    assert list((tmp_path / "warm").iterdir()) == []


def _is_gone(pid):
    """Whether a process has ended; whose child it was is another's affair here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


SILENT = """
import socket, sys, time
from millstream.driver.service import warm
warm.SILENT_SECONDS = 0.5
ours, theirs = socket.socketpair()
node = warm._PoolLine(theirs.detach())
for _ in range(4):
    time.sleep(0.3)
    ours.sendall(b'{"type":"ping"}\\n')
print("pinged", flush=True)
time.sleep(20)
print("still there", flush=True)
"""


def test_one_whose_node_says_nothing_ends():
    command = [sys.executable, "-c", SILENT]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == ("pinged\n", 0)


def test_one_that_cannot_get_ready_is_not_tried_again_at_once(tmp_path):
    now = [0.0]
    pool = WarmPool(tmp_path / "warm", WarmLimits(local=1), monotonic=lambda: now[0])
    pool.tend()
    (process,) = pool._processes
    os.kill(process.identity.pid, signal.SIGKILL)
    until(lambda: pool.tend() or not pool._processes)
    pool.tend()
    assert pool._processes == []
    now[0] = 61.0
    pool.tend()
    assert len(pool._processes) == 1
    pool.close()


def test_no_secret_is_in_a_process_without_a_run(tmp_path, monkeypatch):
    for name in ("PGPASSWORD", "MILLSTREAM_TOKEN", "MILLSTREAM_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, CANARY)
    pool = WarmPool(tmp_path / "warm", WarmLimits(local=1))
    why = pool.taken(DriverFolder(tmp_path / "a"), spec(engine="local", confs={"spark.hadoop.x.password": CANARY}))[1]
    assert "hold a secret" in why
    pool.has_started("r1")
    until(lambda: pool.tend() or any(each.is_ready for each in pool._processes))
    (process,) = pool._processes
    about = Path(f"/proc/{process.identity.pid}")
    held = [path.read_bytes() for path in (tmp_path / "warm").rglob("*") if path.is_file()]
    held += [(about / "environ").read_bytes(), (about / "cmdline").read_bytes()]
    assert len(held) > 3
    assert [each for each in held if CANARY.encode() in each] == []
    assert json.loads(process.folder.wish.read_bytes())["confs"] == {}
    pool.close()
    assert list((tmp_path / "warm").iterdir()) == []
