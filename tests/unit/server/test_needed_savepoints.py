"""Savepoints that something still needs are not disposed of."""

import pytest
from sqlalchemy import insert, update
from starlette.testclient import TestClient
from tests.unit.server.world import NOON, bearer, job_body, service_of, tokens_of

from millstream.control.act import acting
from millstream.control.metadata.tables.runs import execution, savepoint
from millstream.server.app import create_app


@pytest.fixture
def caller(both):
    """An admin on either database."""
    token = tokens_of(both)["admin"]
    with TestClient(create_app(service_of(both)), raise_server_exceptions=False) as client:
        client.headers.update(bearer(token))
        yield client


@pytest.fixture
def kept(caller, both):
    """The number of a savepoint of `orders`; and a way to change the row of a run."""
    caller.post("/v1/jobs", json=job_body())
    row = {"job_id": 1, "trigger_id": "t", "format": "canonical", "status": "READY", "create_time": NOON}
    with acting(both) as act:
        act.connection.execute(insert(savepoint).values(**row, path="/s/1"))

    def changed(run, **values):
        with acting(both) as act:
            act.connection.execute(update(execution).where(execution.c.execution_id == run).values(**values))

    return changed


def disposal(caller):
    answer = caller.delete("/v1/savepoints/1")
    return answer.status_code, answer.json().get("code")


def test_a_savepoint_that_a_run_starts_from_stays(caller, kept):
    other = caller.post("/v1/jobs/orders/runs", json={"from_savepoint": "/s/2"}).json()["id"]
    kept(other, status="DEAD", token=1)
    run = caller.post("/v1/jobs/orders/runs", json={"from_savepoint": "/s/x/../1/"}).json()["id"]
    assert disposal(caller) == (409, "CTL-063")
    kept(run, status="RUNNING", progress={"epoch": 4}, token=1)
    assert disposal(caller) == (409, "CTL-063"), "it may be restarted from there"
    kept(run, status="CANCELLED")
    assert disposal(caller) == (202, None), "its checkpoint has epochs of its own"


def test_a_savepoint_that_a_checkpoint_is_yet_to_restore_stays(caller, kept):
    run = caller.post("/v1/jobs/orders/runs", json={"from_savepoint": "/s/1"}).json()["id"]
    kept(run, status="DEAD", token=1)
    later = caller.post("/v1/jobs/orders/runs", json={}).json()["id"]
    kept(later, status="CANCELLED", token=1)
    assert disposal(caller) == (409, "CTL-064")
    kept(later, progress={"epoch": 0})
    assert disposal(caller) == (202, None)


@pytest.mark.parametrize("how", ["never claimed", "job taken out"])
def test_a_start_that_never_was_holds_no_savepoint(caller, kept, how):
    run = caller.post("/v1/jobs/orders/runs", json={"from_savepoint": "/s/1"}).json()["id"]
    kept(run, status="CANCELLED", token=0 if how == "never claimed" else 1)
    if how == "job taken out":
        assert caller.delete("/v1/jobs/orders").status_code == 204
    assert disposal(caller) == (202, None)
