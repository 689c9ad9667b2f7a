"""`/metrics`: behind the gate as everything is, with what the service, its server and its node's runs tell."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, job_body, service_of

from millstream.contract.driver_protocol import DriverReport
from millstream.control.act import acting
from millstream.control.metrics.exposition import Exposition
from millstream.control.metrics.runs import RunFigures
from millstream.control.nodes import calling
from millstream.control.nodes.channel import ChannelServer
from millstream.control.nodes.registration import Offer, register
from millstream.control.nodes.views import RunViews
from millstream.server.app import create_app

EPOCH = {"epoch": 3, "rows_in": 10, "rows_out": 4, "seconds": 0.5, "lag": None, "watermark": "-", "terminal": False}
OWN = {"metrics": {"map": {"counters": {"hits": 5}, "gauges": {"depth": {"0": 2.0}}, "histograms": {}}}}


def figures():
    told = RunFigures("orders", 0)
    told.take(DriverReport(type="epoch", run="r", token=1, seq=1, at=100.0, body={**EPOCH, **OWN}))
    return told


class Channel:
    """A node that is somewhere else."""

    def metrics(self, run):
        return [{"name": "user_counter_total", "labels": {"step": "map", "name": "hits"}, "value": 5}]

    def page(self, identifier):
        return f'millstream_epochs_total{{node="{identifier}"}} 1\n'


@pytest.fixture
def viewer(metadata, tokens, ticking):
    parts = {"figures": Exposition(metadata, lambda: [figures()]), "channel": Channel()}
    app = create_app(service_of(metadata, monotonic=ticking, **parts))
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers.update(bearer(tokens["viewer"]))
        yield client


def samples(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
    return {(each.name, *sorted(each.labels.values())): each.value for each in found}


def test_all_figures_are_on_one_page(viewer, tokens):
    viewer.post("/v1/jobs", json=job_body(), headers=bearer(tokens["admin"]))
    viewer.get("/v1/jobs/none")
    viewer.request("BREW", "/v1/jobs")
    found = samples(viewer.get("/metrics"))
    assert found["millstream_rows_in_total", "0", "orders"] == 10
    assert found["millstream_user_counter_total", "0", "hits", "map", "orders"] == 5
    assert found["millstream_job_restarts_total", "orders"] == 0
    answered = {frozenset(key[1:]) for key in found if key[0] == "millstream_http_request_seconds_count"}
    assert {frozenset(each) for each in (("POST", "/jobs", "201"), ("GET", "/jobs/{name}", "404"))} <= answered
    assert not [key for key in found if "BREW" in key or "/v1/jobs/none" in key]
    assert [key for key in found if key[0] == "millstream_build_info"]


def test_nobody_sees_them_without_a_token(viewer):
    viewer.headers.pop("Authorization")
    for path in ("/metrics", "/v1/nodes/n1/metrics", "/v1/runs/r/metrics"):
        assert viewer.get(path).status_code == 401, path


def test_a_service_without_figures_has_no_such_page(admin):
    assert admin.get("/metrics").status_code == 404


def test_runs_of_another_node_are_asked_of_it(viewer):
    assert samples(viewer.get("/v1/nodes/n7/metrics")) == {("millstream_epochs_total", "n7"): 1}


def test_prometheus_finds_the_nodes_that_are_no_servers(viewer, metadata):
    with acting(metadata) as act:
        for name, details in (("n1", {}), ("n2", {"serves": False}), ("n3", {"serves": True})):
            register(act, Offer(name, f"boot-{name}", 2, {}, "1", details=details), alone=False)
    answer = viewer.get("/v1/metrics/targets", headers={"host": "server-1:8650"})
    assert answer.json() == [
        {"targets": ["server-1:8650"], "labels": {"__metrics_path__": f"/v1/nodes/{name}/metrics", "instance": name}}
        for name in ("n1", "n2")
    ]
    viewer.headers.pop("Authorization")
    assert viewer.get("/v1/metrics/targets").status_code == 401


def test_a_node_tells_of_its_runs_over_its_channel():
    class Owned:
        def __init__(self):
            self.figures = figures()

    views = RunViews(lambda run, token: None)
    views.runs = lambda: {"r": Owned()}
    channel = ChannelServer(views, None)  # nobody asks for what is stored
    try:
        page = calling.answered_by(f"{channel.address}/metrics", channel.key)
        assert 'millstream_rows_in_total{job_name="orders",slot="0"} 10.0' in page
        told = calling.answered_by(f"{channel.address}/runs/r/metrics", channel.key)
        assert {"name": "user_gauge", "labels": {"step": "map", "name": "depth", "subtask": "0"}, "value": 2.0} in told
        spread = next(each for each in told if each["name"] == "epoch_duration_seconds")
        assert (spread["count"], spread["sum"]) == (1, 0.5)
    finally:
        channel.close()
