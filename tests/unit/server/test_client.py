"""The typed client against a server on a real port."""

import threading
import time

import pytest
from tests.unit.server.world import definition, service_of, tokens_of

from millstream.client import Client
from millstream.errors import (
    ExternalFailure,
    InvalidStep,
    MillstreamError,
    RequestRefused,
    StaleVersion,
    StateConflict,
    UnknownName,
)
from millstream.server.limits import Limits
from millstream.server.serving import listening, server_of


class Served:
    """A server on a port of its own, in a thread."""

    def __init__(self, service):
        self.socket = listening("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = server_of(service)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        end = time.monotonic() + 10
        while not self.server.started and time.monotonic() < end:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(15)
        self.socket.close()


@pytest.fixture
def served(metadata):
    with Served(service_of(metadata, limits=Limits(stream_seconds=60, comment_seconds=0.3))) as served:
        yield served


@pytest.fixture
def client(served, metadata):
    with Client(served.url, tokens_of(metadata)["admin"]) as client:
        yield client


def test_jobs_and_runs(client):
    made = client.jobs.submit(definition(), settings={"engine": "local"})
    assert (made.name, made.version) == ("orders", 1)
    seen = client.jobs.get("orders")
    assert client.jobs.change(seen, definition(path="/elsewhere")).version == 2
    with pytest.raises(StaleVersion):
        client.jobs.change(seen, definition())
    assert [each.version for each in client.jobs.versions("orders")] == [2, 1]
    assert "/elsewhere" in client.jobs.diff("orders", 2).diff
    assert client.jobs.plan("orders", layer="stream").text
    assert client.jobs.validate(definition("other")).name == "other"
    run = client.jobs.start("orders", trigger_id="one")
    assert client.jobs.start("orders", trigger_id="one").id == run.id
    with pytest.raises(StateConflict) as refusal:
        client.jobs.start("orders")
    assert refusal.value.code == "CTL-032"
    assert refusal.value.hint
    operation = client.runs.stop(run.id, "cancel")
    assert client.wait(operation).status == "done"
    assert [each.after for each in client.runs.events(run.id)] == ["SCHEDULED", "CANCELLED"]
    assert [each.id for each in client.runs.list(job="orders")] == [run.id]
    client.jobs.delete("orders")
    with pytest.raises(UnknownName):
        client.jobs.get("orders")


def test_pages_are_one_iterator(client, metadata):
    for number in range(7):
        client.jobs.submit(definition(f"job-{number}"))
    from millstream.client.pages import paged
    from millstream.client.values import JobInfo

    listed = paged(client._transport, "/jobs", JobInfo, {}, page=3)
    assert [each.name for each in listed] == [f"job-{number}" for number in range(7)]


def test_tokens_and_audit(client, served):
    made = client.access.create_token("ci", "viewer")
    with Client(served.url, made.token) as viewer:
        assert viewer.info().role == "viewer"
        with pytest.raises(RequestRefused) as refusal:
            viewer.jobs.submit(definition())
        assert refusal.value.code == "REST-011"
        client.access.revoke_token(made.id)
        with pytest.raises(RequestRefused) as refusal:
            viewer.info()
        assert refusal.value.code == "REST-010"
    done = [(each.action, each.result) for each in client.access.audit()]
    assert ("token.create", "done") in done
    assert ("POST /jobs", "refused") in done


def test_events_go_on_where_they_were_cut(client):
    client.jobs.submit(definition())
    stream = client.events("jobs")
    first = next(stream)
    assert first.event == "snapshot"
    run = client.jobs.start("orders")
    seen = next(stream)
    assert (seen.event, seen.data["run"], seen.data["after"]) == ("run_state", run.id, "SCHEDULED")
    stream.close()
    client.runs.stop(run.id, "cancel")
    resumed = client.events("jobs", last=seen.id)
    missed = next(resumed)
    assert (missed.data["after"], missed.id) == ("CANCELLED", seen.id + 1)
    resumed.close()
    other = client.events(f"run:{run.id}", last=0)
    assert [next(other).data["after"] for _ in range(2)] == ["SCHEDULED", "CANCELLED"]
    other.close()


def test_a_service_that_is_away(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    with Client("http://127.0.0.1:9", "ms_x", timeout=1) as client, pytest.raises(ExternalFailure) as refusal:
        client.info()
    assert refusal.value.code == "REST-060"


@pytest.mark.parametrize(("url", "code"), [("ftp://x", "REST-063"), ("http://example.org", "REST-064")])
def test_addresses_that_are_refused(url, code):
    with pytest.raises(InvalidStep) as refusal:
        Client(url, "ms_x")
    assert refusal.value.code == code


def test_an_answer_of_something_else(served):
    import httpx2

    from millstream.client.problems import error_of

    problem = error_of(httpx2.Response(502, content=b"<html>"))
    assert isinstance(problem, MillstreamError)
    assert problem.code == "REST-061"
