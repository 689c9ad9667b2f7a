"""The node over real driver processes, on the local engine: run to the end, end as asked, survive, take over."""

import contextlib
import json
import os
import shutil
import signal
import time

import pytest
from sqlalchemy import select

import millstream as ms
from millstream.control.act import acting
from millstream.control.dispatcher.definitions import Submission, new_version, submit
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.runs import checkpoint
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.control.settings import settings_of


class SmallService:
    def __init__(self, folder):
        self.folder = folder
        self.metadata = Metadata(f"sqlite:///{folder}/metadata.db")
        migrate.upgrade(self.metadata)
        self.start()

    def start(self):
        options = NodeOptions(*(self.folder / name for name in ("node", "checkpoints", "artifacts", "keys.json")))
        self.plane = ControlPlane(self.metadata, RunningNode(self.metadata, options))
        self.plane.start()

    def submit(self, document, *, again=False, **settings):
        definition = {"kind": "declarative", "document": document}
        planned = planned_apart(definition, code=None, parallelism=None)
        job = Submission(planned, definition, settings_of({"engine": "local", **settings}))
        with acting(self.metadata, "ada") as act:
            if again:
                new_version(act, document["job"], job, expected=None)
            else:
                submit(act, job)
            run = start(act, document["job"], StartOptions()).execution_id
        self.plane.wake()
        return run

    def row(self, run):
        with acting(self.metadata) as act:
            return run_of(act, run)

    def until(self, run, holds, seconds=30):
        end = time.monotonic() + seconds
        while not holds(row := self.row(run)):
            assert time.monotonic() < end, (row.status, row.error_message, row.processed_records)
            time.sleep(0.05)
        return row

    def ask(self, run, wish):
        with acting(self.metadata, "ada") as act:
            asked = stop(act, run_of(act, run), wish)
        self.plane.wake()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with acting(self.metadata) as act:
                found = act.connection.execute(select(operation).where(operation.c.id == asked)).one()
            if found.status in ("done", "failed"):
                return found
            time.sleep(0.05)
        raise AssertionError(found)

    def driver(self, run):
        row = self.row(run)
        (folder,) = self.folder.glob(f"node/runs/{run}.{row.token}")
        return json.loads((folder / "driver.json").read_text())["pid"]


@pytest.fixture
def service(tmp_path):
    made = SmallService(tmp_path)
    yield made
    for path in tmp_path.glob("node/runs/*/driver.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
    made.plane.stop()
    made.metadata.close()


def counted_rows(folder):
    """The newest count of each key, which no lost or doubled row leaves right."""
    counted = {}
    for row in ms.read_files(folder / "out").to_pylist():
        counted[row["k"]] = max(counted.get(row["k"], 0), row["n"])
    return counted


def bounded(folder, rows=500):
    source = {"datagen": {"rows": rows, "seed": 7, "fields": {"a": {"kind": "int", "low": 0, "high": 9}}}}
    steps = [{"source": "s", "from": source}, {"sink": "o", "to": {"files": {"path": str(folder / "out")}}}]
    return {"job": "bounded", "rows_per_epoch": 100, "steps": steps}


def endless(folder, name="endless"):
    source = {"rate": {"rows_per_second": 200}}
    count = {"aggregate": {"n": "count()"}, "key_by": "k", "id": "n"}
    steps = [{"source": "s", "from": source}, {"with_columns": {"k": "value % 7"}}, count]
    steps.append({"sink": "o", "to": {"files": {"path": str(folder / "out")}}})
    return {"job": name, "epoch_interval": "50ms", "steps": steps}


def test_a_bounded_job_comes_to_its_end(service, tmp_path):
    run = service.submit(bounded(tmp_path))
    row = service.until(run, lambda row: row.status == "COMPLETED")
    assert (row.processed_records, row.attempt, row.retry_count) == (500, 1, 0)
    assert ms.read_files(tmp_path / "out").num_rows == 500
    assert 0 < row.throughput < 500 / 0.001
    with acting(service.metadata) as act:
        kept = act.connection.execute(select(checkpoint)).all()
    assert [each.checkpoint_id for each in kept] == list(range(len(kept)))
    assert kept[-1].state_data["source_state"]["s"]["type"] == "datagen"
    part = ChannelCalls(service.metadata).log(run, "driver", 0, 100_000)
    assert len(part["text"].encode()) == part["size"] == part["next"]
    assert "run ended" in part["text"]
    assert "driver.log" in ChannelCalls(service.metadata).logs(run)


def test_savepoint_drain_and_what_can_be_seen(service, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.status == "RUNNING" and row.processed_records > 0)
    calls = ChannelCalls(service.metadata)
    seen = calls.sight(run, 10.0)
    assert [each["name"] for each in seen["graph"]["vertices"]]
    assert seen["newest"]["epoch"]["rows_in"] >= 0
    assert calls.pulse(run, None)["epochs"][0]["epoch"] >= 0
    assert "Thread" in calls.dump(run)["text"]
    assert calls.epochs(run, 5)[-1]["rows_in"] >= 0
    saved = service.ask(run, Wish("export_savepoint"))
    assert (saved.status, os.path.isdir(saved.result["path"])) == ("done", True)
    assert service.ask(run, Wish("drain")).result["status"] == "COMPLETED"
    assert service.row(run).status == "COMPLETED"


def test_a_driver_that_is_killed_is_replaced_and_nothing_is_lost(service, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 100)
    os.kill(service.driver(run), signal.SIGKILL)
    before = service.until(run, lambda row: row.attempt == 2 and row.status == "RUNNING").processed_records
    service.until(run, lambda row: row.processed_records > before + 50)
    assert service.ask(run, Wish("cancel")).result["status"] == "CANCELLED"
    counted = counted_rows(tmp_path)
    assert len(counted) == 7
    assert max(counted.values()) - min(counted.values()) <= 1


def test_a_checkpoint_that_is_gone_is_no_first_run(service, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 100)
    assert service.ask(run, Wish("cancel")).status == "done"
    shutil.rmtree(tmp_path / "checkpoints" / "endless")
    published = counted_rows(tmp_path)
    anew = {"ignore_state_once": True, "on_newer_output": "truncate"}
    for options, ends, code in [({}, "DEAD", "CKPT-067"), (anew, "RUNNING", None)]:
        with acting(service.metadata, "ada") as act:
            run = start(act, "endless", StartOptions(**options)).execution_id
        service.plane.wake()
        assert service.until(run, lambda row, ends=ends: row.status == ends).error_code == code
        assert counted_rows(tmp_path) == published or options


def test_a_node_that_comes_back_adopts_its_drivers(service, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.processed_records > 0)
    pid = service.driver(run)
    service.plane.stop()
    before = service.row(run).processed_records
    time.sleep(0.5)
    service.start()
    service.until(run, lambda row: row.processed_records > before, seconds=5)
    row = service.row(run)
    assert (row.attempt, row.retry_count, row.status, service.driver(run)) == (1, 0, "RUNNING", pid)
    assert service.ask(run, Wish("suspend")).result["status"] == "SUSPENDED"


def test_a_job_that_fails_says_why(service, tmp_path):
    document = bounded(tmp_path)
    document["steps"][1]["to"] = {"files": {"path": "/proc/nothing/here"}}
    run = service.submit(document, restart={"strategy": "none"})
    row = service.until(run, lambda row: row.status == "DEAD")
    assert "/proc/nothing" in row.error_message


@pytest.mark.parametrize("ending", ["cancel", "suspend"])
def test_a_job_that_is_submitted_again_with_another_parallelism_goes_on(service, tmp_path, ending):
    document = {**endless(tmp_path), "parallelism": 2}
    for parallelism in (2, 3, 1):
        run = service.submit({**document, "parallelism": parallelism}, again=parallelism != 2)
        row = service.until(run, lambda row: row.status == "RUNNING" and row.processed_records > 50)
        assert row.attempt == 1
        assert service.ask(run, Wish(ending)).status == "done"
    (folder,) = tmp_path.glob("checkpoints/*")
    assert len(list(folder.glob("savepoints/savepoint-rescaled-*"))) == 2
    counted = counted_rows(tmp_path)
    assert len(counted) == 7
    assert max(counted.values()) - min(counted.values()) <= 1
    assert sum(counted.values()) >= 150
