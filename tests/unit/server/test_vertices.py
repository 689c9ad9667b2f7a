"""What is live about a run, over the real server and a real driver on the local engine; then what is stored of it."""

import contextlib
import json
import os
import signal
import time

import pytest
from starlette.testclient import TestClient
from tests.unit.control.test_real_drivers import SmallService
from tests.unit.server.world import bearer, service_of, tokens_of

from millstream.control.act import acting
from millstream.control.dispatcher.stopping import Wish
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.nodes.registration import set_state
from millstream.server.app import create_app


def timed(folder):
    """Rows with event times, counted by key in windows: two vertices with an exchange between them."""
    source = {"rate": {"rows_per_second": 300}}
    steps = [
        {"source": "s", "from": source},
        {"with_columns": {"k": "value % 7"}},
        {"filter": "k <> 3"},
        {"event_time": "timestamp", "max_delay": "10ms"},
        {"aggregate": {"n": "count()"}, "key_by": "k", "window": {"tumbling": "100ms"}, "id": "n"},
        {"sink": "o", "to": {"files": {"path": str(folder / "out")}}},
    ]
    return {"job": "timed", "epoch_interval": "50ms", "parallelism": 2, "steps": steps}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    made = SmallService(folder)
    yield made
    for path in folder.glob("node/runs/*/driver.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
    made.plane.stop()
    made.metadata.close()


@pytest.fixture(scope="module")
def caller(service):
    app = create_app(service_of(service.metadata, channel=ChannelCalls(service.metadata)))
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers.update(bearer(tokens_of(service.metadata)["viewer"]))
        yield client


@pytest.fixture(scope="module")
def run(service):
    started = service.submit(timed(service.folder))
    service.until(started, lambda row: row.processed_records > 600)
    return started


def read(caller, path, code=200):
    answer = caller.get(f"/v1/runs/{path}")
    assert answer.status_code == code, answer.text
    return answer.json()


def test_vertices_with_their_load_rows_and_watermarks(caller, run):
    told = read(caller, f"{run}/vertices")
    first, second = told["items"]
    assert (told["source"], first["level"], second["level"], second["parallelism"]) == ("live", 0, 1, 2)
    for vertex in told["items"]:
        load = vertex["load"]
        assert load["busy"] + load["blocked"] + load["idle"] == pytest.approx(1.0, abs=0.001)
        assert 0 < load["busy"] <= 1
        assert load["mean_busy"] <= load["busy"] + 0.001
        assert load["level"] in ("ok", "low", "high")
        assert (vertex["status"], vertex["first_error"]) == ("RUNNING", None)
    rows = first["rows"]
    assert rows["filtered"] > 0
    assert rows["in"] == rows["out"] + rows["filtered"] + rows["late"] + rows["dead"] + rows["skipped"]
    assert second["rows"]["in"] > 0
    assert 100 < rows["in_per_second"] < 1000
    assert first["watermark"] == second["watermark"] > "2026"
    assert told["holder"]["why"]


def test_one_vertex_its_subtasks_and_their_attempts(caller, run):
    (first, second) = read(caller, f"{run}/vertices")["items"]
    vertex = read(caller, f"{run}/vertices/{second['uid']}")
    assert [each["subtask"] for each in vertex["subtasks"]] == [0, 1]
    assert {each["state"] for each in vertex["subtasks"]} <= {"FINISHED", "RUNNING", "SCHEDULED"}
    assert read(caller, f"{run}/vertices/{first['id']}/subtasks")["items"][0]["rows_in"] >= 0
    attempts = read(caller, f"{run}/vertices/{second['uid']}/subtasks/1/attempts")["items"]
    assert 2 <= len({each["epoch"] for each in attempts}) <= 20
    assert attempts[0]["state"] == "FINISHED"
    assert read(caller, f"{run}/vertices/{second['uid']}/subtasks/9/attempts", 404)["code"] == "CTL-152"
    assert read(caller, f"{run}/vertices/nothing", 404)["code"] == "CTL-153"


def test_back_pressure_and_watermarks(caller, run):
    (_, second) = read(caller, f"{run}/vertices")["items"]
    told = read(caller, f"{run}/vertices/{second['uid']}/backpressure")
    assert told["level"] in ("ok", "low", "high")
    assert [each["subtask"] for each in told["subtasks"]] == [0, 1]
    assert all(
        each["busy"] + each["blocked"] + each["idle"] == pytest.approx(1, abs=0.001) for each in told["subtasks"]
    )
    marks = read(caller, f"{run}/vertices/{second['uid']}/watermarks")
    (step,) = marks["steps"]
    assert marks["watermark"] == marks["steps"][step] > "2026"
    assert marks["lag_seconds"] >= 0
    assert [each["step"] for each in marks["partitions"]] == [step]
    assert [each["is_holding"] for each in marks["partitions"]] == [True]


def test_progress_is_complete(caller, run):
    end = time.monotonic() + 15
    # A driver gives a sign of life every five seconds: the first one was of its beginning.
    while (told := read(caller, f"{run}/progress"))["alive"]["state"] != "RUNNING":
        assert time.monotonic() < end, told["alive"]
        time.sleep(0.2)
    assert (told["source"], told["status"]) == ("live", "RUNNING")
    assert 100 < told["rates"]["rows_in"] < 1000
    assert told["rates"]["epochs"] > 1
    assert told["lag"]["rows"] is None or told["lag"]["rows"] >= 0
    assert [each["is_holding"] for each in told["watermark"]["holders"]] == [True]
    assert set(told["buffers"]) == {"s"}
    assert told["holder"]["why"]


def test_figures_that_are_asked_for(caller, run):
    every = read(caller, f"{run}/metrics")
    some = read(caller, f"{run}/metrics?get=rows_in_total,millstream_vertex_busy_ratio")
    assert {each["name"] for each in some} == {"rows_in_total", "vertex_busy_ratio"} < {each["name"] for each in every}
    (told,) = read(caller, f"{run}/metrics?get=vertex_busy_ratio&agg=min,max,avg,sum")
    assert told["samples"] == 2
    assert told["min"] <= told["avg"] <= told["max"] <= told["sum"]
    assert set(read(caller, f"{run}/metrics?get=epoch&agg=max")[0]) == {"name", "samples", "max"}
    assert read(caller, f"{run}/metrics?get=nothing", 422)["code"] == "CTL-154"
    assert read(caller, f"{run}/metrics?agg=median", 422)["code"] == "CTL-155"


def test_another_process_of_the_node_still_knows_the_graph(service, caller, run):
    service.plane.stop()
    service.start()
    before = service.row(run).processed_records
    service.until(run, lambda row: row.processed_records > before + 100)
    assert len(read(caller, f"{run}/vertices")["items"]) == 2
    assert len(read(caller, f"{run}/graph")["edges"]) == 1


def test_what_is_stored_when_the_run_has_ended(service, caller, run):
    assert service.ask(run, Wish("cancel")).result["status"] == "CANCELLED"
    told = read(caller, f"{run}/vertices")
    assert (told["source"], [each["status"] for each in told["items"]]) == ("stored", ["CANCELED", "CANCELED"])
    assert told["items"][0]["rows"]["in"] > 0
    uid = told["items"][1]["uid"]
    assert read(caller, f"{run}/vertices/{uid}")["subtasks"] == []
    assert read(caller, f"{run}/vertices/{uid}/watermarks")["watermark"] > "2026"
    assert read(caller, f"{run}/vertices/{uid}/subtasks/0/attempts", 404)["code"] == "CTL-151"
    assert read(caller, f"{run}/progress")["source"] == "stored"
    kinds = [each["kind"] for each in read(caller, f"{run}/events")["items"]]
    assert kinds.count("planned") == 1


def test_a_run_that_never_came_so_far(service, caller):
    document = {**timed(service.folder), "job": "broken"}
    document["steps"] = [document["steps"][0], {"sink": "o", "to": {"files": {"path": "/proc/nothing/here"}}}]
    started = service.submit(document, restart={"strategy": "none"})
    service.until(started, lambda row: row.status == "DEAD")
    told = read(caller, f"{started}/vertices")
    (vertex,) = told["items"]
    assert (told["holder"], vertex["status"], vertex["watermark"], vertex["bytes"]) == (None, "FAILED", None, None)
    assert vertex["load"] == {"busy": None, "blocked": None, "idle": None, "mean_busy": None, "level": None}


def test_a_run_that_never_began(service, caller):
    with acting(service.metadata) as act:
        set_state(act, service.plane._node.directory.id, "CORDONED")
        service.plane._node._node._leases.state = "CORDONED"
    waiting = service.submit({**timed(service.folder), "job": "waiting"})
    assert read(caller, f"{waiting}/vertices", 404)["code"] == "CTL-150"
    assert read(caller, f"{waiting}/progress", 404)["code"] == "CTL-150"
