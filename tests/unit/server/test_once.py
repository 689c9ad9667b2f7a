"""One effect for one key, stale changes refused, and cursors that cannot be forged."""

import base64
import datetime as dt
import threading

import pytest
from sqlalchemy import func, insert, select
from starlette.testclient import TestClient
from tests.unit.server.world import NOON, bearer, definition, job_body, service_of, tokens_of

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import change
from millstream.control.metadata.tables.jobs import job_version
from millstream.control.metadata.tables.runs import execution, savepoint
from millstream.server.access.tokens import create_token
from millstream.server.app import create_app


@pytest.fixture
def caller(both):
    """An admin on either database."""
    token = tokens_of(both)["admin"]
    with TestClient(create_app(service_of(both)), raise_server_exceptions=False) as client:
        client.headers.update(bearer(token))
        yield client


def together(count, act):
    """What so many threads got that begin at once."""
    gate, answers = threading.Barrier(count), []

    def go():
        gate.wait(10)
        answers.append(act())

    threads = [threading.Thread(target=go) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def key(text):
    return {"Idempotency-Key": text}


def counted(metadata, column):
    with acting(metadata) as act:
        return act.connection.execute(select(func.count(column))).scalar_one()


def test_eight_submit_the_same_under_one_key(caller, both):
    answers = together(8, lambda: caller.post("/v1/jobs", json=job_body(), headers=key("a")))
    assert [answer.status_code for answer in answers] == [201] * 8
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert {answer.headers["location"] for answer in answers} == {"/v1/jobs/orders"}
    assert counted(both, job_version.c.version) == 1


def test_eight_without_a_key(caller, both):
    answers = together(8, lambda: caller.post("/v1/jobs", json=job_body()))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


def test_eight_start_under_one_key(caller, both):
    caller.post("/v1/jobs", json=job_body())
    answers = together(8, lambda: caller.post("/v1/jobs/orders/runs", json={}, headers=key("go")))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert answers[0].json()["trigger_id"].startswith("key:")
    assert counted(both, execution.c.id) == 1


def test_a_key_of_another_caller_is_another_start(caller, both):
    caller.post("/v1/jobs", json=job_body())
    first = caller.post("/v1/jobs/orders/runs", json={"params": {"day": 1}}, headers=key("nightly")).json()["id"]
    caller.post(f"/v1/runs/{first}/stop", json={"mode": "cancel"})
    with acting(both) as act:
        other = bearer(create_token(act, "other", "operator", dt.timedelta(days=1)).text)
    answer = caller.post("/v1/jobs/orders/runs", json={"params": {"day": 2}}, headers=key("nightly") | other)
    assert answer.status_code == 202
    assert (answer.json()["id"] != first, answer.json()["options"]["params"]) == (True, {"day": 2})


def test_a_trigger_stands_for_one_start(caller, both):
    caller.post("/v1/jobs", json=job_body())
    body = {"trigger_id": "monday", "params": {"day": 1}}
    first = caller.post("/v1/jobs/orders/runs", json=body).json()["id"]
    assert caller.post("/v1/jobs/orders/runs", json=body).json()["id"] == first
    other = caller.post("/v1/jobs/orders/runs", json=body | {"params": {"day": 2}})
    assert (other.status_code, other.json()["code"]) == (409, "CTL-061")


@pytest.mark.parametrize("trigger", ["cron@2026-03-01T00:00:00+00:00", "desired:4f1c", "backfill:1@2026", "key:0a"])
def test_triggers_of_the_service_are_its_own(caller, both, trigger):
    caller.post("/v1/jobs", json=job_body())
    answer = caller.post("/v1/jobs/orders/runs", json={"trigger_id": trigger})
    assert (answer.status_code, answer.json()["code"]) == (422, "CTL-060")


def test_eight_stop_under_one_key(caller, both):
    caller.post("/v1/jobs", json=job_body())
    run = caller.post("/v1/jobs/orders/runs", json={}).json()["id"]
    answers = together(8, lambda: caller.post(f"/v1/runs/{run}/stop", json={"mode": "cancel"}, headers=key("end")))
    assert {answer.status_code for answer in answers} == {202}
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert len(caller.get("/v1/operations").json()["items"]) == 1
    assert caller.post(f"/v1/runs/{run}/stop", json={"mode": "cancel"}).status_code == 409


def test_another_body_under_the_same_key(caller):
    caller.post("/v1/jobs", json=job_body(), headers=key("a"))
    answer = caller.post("/v1/jobs", json=job_body("other"), headers=key("a"))
    assert (answer.status_code, answer.json()["code"]) == (409, "REST-022")
    assert caller.get("/v1/jobs/other").status_code == 404
    assert caller.post("/v1/jobs/orders/runs", json={}, headers=key("a")).status_code == 202


def test_what_failed_may_be_tried_again_under_its_key(caller):
    assert caller.post("/v1/jobs/orders/runs", json={}, headers=key("k")).status_code == 404
    caller.post("/v1/jobs", json=job_body())
    assert caller.post("/v1/jobs/orders/runs", json={}, headers=key("k")).status_code == 202


def test_keys_are_each_callers_own(both):
    tokens = tokens_of(both)
    with TestClient(create_app(service_of(both))) as client:
        client.post("/v1/jobs", json=job_body(), headers={**bearer(tokens["admin"]), **key("a")})
        other = client.post("/v1/jobs", json=job_body(), headers={**bearer(tokens["author"]), **key("a")})
        assert (other.status_code, other.json()["code"]) == (409, "CTL-021")


@pytest.mark.parametrize("text", ["a b", "é", "x" * 201, ""])
def test_keys_that_cannot_be_used(caller, text):
    answer = caller.post("/v1/jobs", json=job_body(), headers={"Idempotency-Key": text.encode()})
    assert (answer.status_code, answer.json()["code"]) == (422, "REST-023")


def test_a_token_is_not_made_under_a_key(caller):
    answer = caller.post("/v1/tokens", json={"name": "x", "role": "viewer"}, headers=key("a"))
    assert (answer.status_code, answer.json()["code"]) == (422, "REST-023")


class TestVersionsSeen:
    def test_a_change_says_what_was_seen(self, caller):
        made = caller.post("/v1/jobs", json=job_body())
        body = {"dag_definition": definition(path="/b")}
        assert caller.put("/v1/jobs/orders", json=body).json()["code"] == "REST-020"
        assert caller.put("/v1/jobs/orders", json=body, headers={"If-Match": '"9.9.-"'}).status_code == 412
        assert caller.put("/v1/jobs/orders", json=body, headers={"If-Match": "rubbish"}).status_code == 412
        changed = caller.put("/v1/jobs/orders", json=body, headers={"If-Match": made.headers["etag"]})
        assert (changed.status_code, changed.json()["version"]) == (200, 2)
        stale = caller.put("/v1/jobs/orders", json=body, headers={"If-Match": made.headers["etag"]})
        assert (stale.status_code, stale.json()["code"]) == (412, "CTL-022")

    def test_of_eight_changes_one_is_made(self, caller, both):
        seen = caller.post("/v1/jobs", json=job_body()).headers["etag"]
        body = {"dag_definition": definition(path="/b")}
        answers = together(8, lambda: caller.put("/v1/jobs/orders", json=body, headers={"If-Match": seen}))
        assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
        assert counted(both, job_version.c.version) == 2

    def test_small_changes_and_deleting_may_say_it(self, caller, clock):
        seen = caller.post("/v1/jobs", json=job_body()).headers["etag"]
        clock.forward(1)
        patched = caller.patch("/v1/jobs/orders", json={"enabled": False}, headers={"If-Match": seen})
        assert patched.status_code == 200
        assert caller.patch("/v1/jobs/orders", json={"enabled": True}, headers={"If-Match": seen}).status_code == 412
        assert caller.delete("/v1/jobs/orders", headers={"If-Match": seen}).status_code == 412
        assert caller.delete("/v1/jobs/orders", headers={"If-Match": patched.headers["etag"]}).status_code == 204

    def test_nothing_new(self, caller):
        seen = caller.post("/v1/jobs", json=job_body()).headers["etag"]
        answer = caller.get("/v1/jobs/orders", headers={"If-None-Match": seen})
        assert (answer.status_code, answer.content) == (304, b"")
        caller.post("/v1/jobs/orders/runs", json={})
        now = caller.get("/v1/jobs/orders", headers={"If-None-Match": seen})
        assert (now.status_code, now.json()["run"]["status"]) == (200, "SCHEDULED")
        # A run that moves is no change of the job: who saw the job before may change it.
        body = {"dag_definition": definition(path="/b")}
        assert caller.put("/v1/jobs/orders", json=body, headers={"If-Match": seen}).status_code == 200

    def test_a_job_with_an_open_run_stays(self, caller):
        caller.post("/v1/jobs", json=job_body())
        caller.post("/v1/jobs/orders/runs", json={})
        assert caller.delete("/v1/jobs/orders").json()["code"] == "CTL-026"


class TestPages:
    @pytest.fixture
    def filled(self, caller, both, clock):
        """Five jobs with a run each."""
        for number in range(5):
            caller.post("/v1/jobs", json=job_body(f"job-{number}"))
            caller.post(f"/v1/jobs/job-{number}/runs", json={})
            clock.forward(number % 2)
        return caller

    def pages(self, client, path, limit=2):
        found, cursor = [], None
        for _ in range(10):
            params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
            page = client.get(path, params=params).json()
            assert len(page["items"]) <= limit
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                return found
        return None

    def test_every_row_once(self, filled):
        assert [each["name"] for each in self.pages(filled, "/v1/jobs")] == [f"job-{n}" for n in range(5)]
        assert [each["job"] for each in self.pages(filled, "/v1/runs")] == [f"job-{n}" for n in (4, 3, 2, 1, 0)]
        assert len(self.pages(filled, "/v1/audit", 3)) == 10
        assert len(self.pages(filled, "/v1/tokens")) == 5

    def test_rows_that_come_in_between(self, filled):
        first = filled.get("/v1/jobs?limit=2").json()
        filled.post("/v1/jobs", json=job_body("a-first"))
        second = filled.get("/v1/jobs", params={"limit": 2, "cursor": first["next"]}).json()
        assert [each["name"] for each in second["items"]] == ["job-2", "job-3"]

    def test_filters(self, filled):
        assert len(filled.get("/v1/jobs?q=OB-3").json()["items"]) == 1
        assert len(filled.get("/v1/jobs?q=%25").json()["items"]) == 0
        assert len(filled.get("/v1/jobs?type=STREAMING").json()["items"]) == 5
        assert len(filled.get("/v1/runs?job=job-1&status=SCHEDULED").json()["items"]) == 1
        assert filled.get("/v1/overview").json()["runs"] == {"SCHEDULED": 5}

    def test_cursors_of_others(self, filled):
        cursor = filled.get("/v1/jobs?limit=2").json()["next"]
        raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        for place in (0, 5, 16, len(raw) - 1):
            changed = bytes(raw[:place]) + bytes([raw[place] ^ 1]) + bytes(raw[place + 1 :])
            text = base64.urlsafe_b64encode(changed).decode().rstrip("=")
            answer = filled.get("/v1/jobs", params={"cursor": text})
            assert (answer.status_code, answer.json()["code"]) == (422, "REST-024")
        for path, params in (("/v1/runs", {}), ("/v1/jobs", {"q": "x"})):
            assert filled.get(path, params={"cursor": cursor, **params}).json()["code"] == "REST-024"
        for text in ("x", "", "é", "=", "AAAA" * 30):
            assert filled.get("/v1/jobs", params={"cursor": text}).status_code == 422


def test_savepoints_are_listed_and_disposed_of(caller, both):
    caller.post("/v1/jobs", json=job_body())
    row = {
        "job_id": 1,
        "trigger_id": "t",
        "format": "canonical",
        "path": "/s/1",
        "status": "READY",
        "create_time": NOON,
    }
    with acting(both) as act:
        act.connection.execute(insert(savepoint).values(**row))
    (listed,) = caller.get("/v1/savepoints?job=orders").json()["items"]
    assert caller.get(f"/v1/savepoints/{listed['id']}").json()["path"] == "/s/1"
    answer = caller.delete(f"/v1/savepoints/{listed['id']}")
    assert answer.status_code == 202
    assert caller.get(answer.headers["location"]).json()["status"] in ("pending", "failed", "done")
    assert caller.delete(f"/v1/savepoints/{listed['id']}").json()["code"] == "REST-033"


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_what_changes_while_it_is_compared_is_a_stale_version(caller, both, clock, method):
    etag = caller.post("/v1/jobs", json=job_body()).headers["etag"]
    body = {"PATCH": {"enabled": True}, "PUT": job_body()}.get(method)
    answers, told = [], {"If-Match": etag}
    asking = threading.Thread(
        target=lambda: answers.append(caller.request(method, "/v1/jobs/orders", json=body, headers=told))
    )
    clock.forward(1)
    with acting(both) as act:
        change(act, "orders", enabled=False)
        asking.start()
        asking.join(1)  # it reads what is there, or waits
        assert asking.is_alive()
    asking.join(30)
    assert [each.status_code for each in answers] == [412], answers[0].text
    assert caller.get("/v1/jobs/orders").json()["enabled"] is False
