"""`millstream status` and the client over a run that goes on, and over one of which nothing is known."""

import contextlib
import itertools
import json
import os
import signal

import pytest
from tests.unit.control.test_real_drivers import SmallService
from tests.unit.server.test_client import Served
from tests.unit.server.test_vertices import timed
from tests.unit.server.world import service_of, tokens_of
from typer.testing import CliRunner

from millstream.cli.main import app
from millstream.client import Client
from millstream.control.nodes.calling import ChannelCalls
from millstream.errors import InvalidStep, UnknownName


@pytest.fixture
def service(tmp_path):
    made = SmallService(tmp_path)
    yield made
    for path in tmp_path.glob("node/runs/*/driver.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
    made.plane.stop()
    made.metadata.close()


@pytest.fixture
def served(service, monkeypatch):
    with Served(service_of(service.metadata, channel=ChannelCalls(service.metadata))) as served:
        monkeypatch.setenv("MILLSTREAM_URL", served.url)
        monkeypatch.setenv("MILLSTREAM_TOKEN", tokens_of(service.metadata)["admin"])
        yield served


@pytest.fixture
def client(served):
    with Client(served.url, os.environ["MILLSTREAM_TOKEN"]) as client:
        yield client


def status(run):
    shown = CliRunner().invoke(app, ["status", run])
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_a_run_that_goes_on(service, client, tmp_path):
    run = service.submit(timed(tmp_path))
    service.until(run, lambda row: row.processed_records > 300)
    shown = status(run)
    assert "held back" in shown
    (vertex,) = [line for line in shown.splitlines() if line.startswith("n ")]
    assert vertex.split()[1] == "running"
    told = client.runs.vertices(run)
    uid = told.items[1].uid
    assert (uid, told.source) == ("n", "live")
    assert [each.subtask for each in client.runs.vertex(run, uid).subtasks] == [0, 1]
    assert client.runs.attempts(run, uid, 0)[0].state == "FINISHED"
    assert client.runs.backpressure(run, uid)["level"] == "ok" or told.items[1].load.blocked
    assert client.runs.watermarks(run, uid)["partitions"]
    assert client.runs.progress(run)["rates"]["rows_in"] > 0
    assert client.runs.metrics(run, ["vertex_busy_ratio"], agg=["max"])[0]["samples"] == 2
    with pytest.raises(InvalidStep, match="CTL-154"):
        client.runs.metrics(run, ["nothing"])
    with pytest.raises(UnknownName, match="CTL-153"):
        client.runs.vertex(run, "nobody")
    names = {each.event for each in itertools.islice(client.events(f"run:{run}"), 6)}
    assert {"snapshot", "progress", "epoch"} <= names


def test_a_run_of_which_nothing_is_known(service, served, tmp_path):
    service.plane.stop()
    run = service.submit(timed(tmp_path))
    assert "not known: nothing is stored of the graph" in status(run)
    service.start()
