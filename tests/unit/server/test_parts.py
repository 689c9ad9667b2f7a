"""Secrets, settings, artifacts, schedules, backfills and hooks over HTTP."""

import io
import zipfile

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient
from tests.unit.server.world import NOON, bearer, definition, job_body, tokens_of, whole_service

from millstream.control.act import acting
from millstream.control.schedule.webhook import signature_of
from millstream.server.app import create_app

CANARY = "canary-7f3a9"


@pytest.fixture
def caller(both, tmp_path):
    token = tokens_of(both)["admin"]
    with TestClient(create_app(whole_service(both, tmp_path)), raise_server_exceptions=False) as client:
        client.headers.update(bearer(token))
        client.post("/v1/jobs", json=job_body())
        yield client


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.py", content)
    return made.getvalue()


def upload(client, content, name="orders.zip"):
    return client.post(
        "/v1/artifacts", params={"name": name}, content=content, headers={"Content-Type": "application/zip"}
    )


def everything(metadata):
    """All rows of all tables, as text."""
    with acting(metadata) as act:
        inspector = __import__("sqlalchemy").inspect(act.connection)
        names = inspector.get_table_names()
        return "".join(str(list(act.connection.execute(text(f'SELECT * FROM "{name}"')))) for name in names)


def test_a_secret_goes_in_and_never_out(caller, both):
    assert caller.put("/v1/secrets/DB_PASSWORD", json={"value": CANARY}).status_code == 204
    listed = caller.get("/v1/secrets")
    assert [each["name"] for each in listed.json()["items"]] == ["DB_PASSWORD"]
    assert caller.put("/v1/secrets/9", json={"value": CANARY}).json()["code"] == "CTL-304"
    told = listed.text + caller.get("/v1/audit").text + everything(both)
    assert CANARY not in told
    assert caller.get("/v1/secrets/DB_PASSWORD").status_code == 405
    assert caller.delete("/v1/secrets/DB_PASSWORD").status_code == 204
    assert caller.delete("/v1/secrets/DB_PASSWORD").json()["code"] == "CTL-306"


def test_settings_of_a_job(caller, both):
    assert (
        caller.put("/v1/jobs/orders/config/checkpoint.retention", json={"value": 5, "type": "INT"}).status_code == 204
    )
    hidden = {"value": CANARY, "sensitive": True}
    assert caller.put("/v1/jobs/orders/config/DB_PASSWORD", json=hidden).status_code == 204
    listed = caller.get("/v1/jobs/orders/config").json()["items"]
    assert {each["key"]: each["value"] for each in listed} == {"checkpoint.retention": "5", "DB_PASSWORD": "***"}
    assert CANARY not in caller.get("/v1/audit").text + everything(both)
    wrong = {"value": "x", "type": "INT"}
    assert caller.put("/v1/jobs/orders/config/checkpoint.retention", json=wrong).json()["code"] == "CTL-311"
    assert caller.put("/v1/jobs/orders/config/nobody", json={"value": "3"}).json()["code"] == "CTL-310"
    assert caller.delete("/v1/jobs/orders/config/DB_PASSWORD").status_code == 204
    assert caller.get("/v1/jobs/nothing/config").status_code == 404


def test_a_job_comes_with_its_settings(caller):
    body = job_body("other", config={"checkpoint.retention": {"value": 3, "type": "INT"}})
    assert caller.post("/v1/jobs", json=body).status_code == 201
    assert len(caller.get("/v1/jobs/other/config").json()["items"]) == 1
    wrong = job_body("third", config={"no.such.setting": {"value": 3}})
    assert caller.post("/v1/jobs", json=wrong).status_code == 422
    assert caller.get("/v1/jobs/third").status_code == 404


def test_code_is_uploaded_once_and_kept_while_needed(caller):
    content = zipped(orders="x = 1")
    made = upload(caller, content)
    assert made.status_code == 201, made.text
    sha256 = made.json()["sha256"]
    assert made.headers["location"] == f"/v1/artifacts/{sha256}"
    assert upload(caller, content).status_code == 200
    assert [each["sha256"] for each in caller.get("/v1/artifacts").json()["items"]] == [sha256]
    body = job_body("coded", artifact=sha256)
    assert caller.post("/v1/jobs", json=body).status_code == 201
    assert caller.delete(f"/v1/artifacts/{sha256}").json()["code"] == "CTL-360"
    caller.delete("/v1/jobs/coded")
    assert caller.delete(f"/v1/artifacts/{sha256}").status_code == 204
    assert caller.get(f"/v1/artifacts/{sha256}").status_code == 404
    assert caller.post("/v1/jobs", json=job_body("again", artifact="0" * 64)).status_code == 404


@pytest.mark.parametrize("name", ["x.exe", "../../x.zip", "/etc/x.zip", "", "a/b.zip"])
def test_names_of_uploads(caller, name):
    assert upload(caller, zipped(a="1"), name).status_code == 422


def test_archives_that_are_refused(caller):
    climbing = io.BytesIO()
    with zipfile.ZipFile(climbing, "w") as archive:
        archive.writestr("../../evil.py", "x")
    assert upload(caller, climbing.getvalue()).status_code == 422
    assert upload(caller, b"no zip").status_code == 422
    assert upload(caller, b"").status_code == 422
    assert caller.get("/v1/artifacts").json()["items"] == []


def test_a_schedule(caller, clock):
    path = "/v1/jobs/orders/schedule"
    assert caller.get(path).json()["code"] == "CTL-218"
    made = caller.put(path, json={"type": "cron", "cron": "0 6 * * *", "time_zone": "Europe/Berlin"})
    assert made.status_code == 200, made.text
    assert made.headers["etag"] == '"1"'
    assert caller.get(f"{path}/next?count=2").json()["items"] == ["2026-03-02T05:00:00Z", "2026-03-03T05:00:00Z"]
    assert caller.put(path, json={"type": "cron", "cron": "x"}).status_code == 422
    assert caller.put(path, json={"type": "manual"}, headers={"If-Match": '"7"'}).status_code == 412
    assert caller.put(path, json={"type": "manual"}, headers={"If-Match": "x"}).status_code == 422
    assert caller.post(f"{path}/pause").json()["enabled"] is False
    assert caller.post(f"{path}/resume").json()["enabled"] is True
    fired = caller.post(f"{path}/fire", json={"key": "now"})
    assert (fired.status_code, fired.json()["result"]) == (202, "FIRED")
    assert caller.post(f"{path}/fire", json={"key": "now"}).json()["run"] == fired.json()["run"]
    assert [each["result"] for each in caller.get(f"{path}/fires").json()["items"]] == ["FIRED"]
    assert caller.delete(path).status_code == 204


def test_a_backfill(caller):
    caller.put("/v1/jobs/orders/schedule", json={"type": "cron", "cron": "0 0 * * *"})
    body = {"from": "2026-02-20T00:00:00Z", "to": "2026-02-23T00:00:00Z", "dry_run": True}
    shown = caller.post("/v1/jobs/orders/backfills", json=body)
    assert (shown.status_code, len(shown.json()["intervals"]), shown.json()["id"]) == (200, 3, None)
    body["dry_run"] = False
    begun = caller.post("/v1/jobs/orders/backfills", json=body, headers={"Idempotency-Key": "b"})
    assert begun.status_code == 202, begun.text
    again = caller.post("/v1/jobs/orders/backfills", json=body, headers={"Idempotency-Key": "b"})
    assert again.json() == begun.json()
    (listed,) = caller.get("/v1/jobs/orders/backfills").json()["items"]
    assert caller.delete(f"/v1/jobs/orders/backfills/{listed['id']}").status_code == 204
    assert caller.post("/v1/jobs/orders/backfills", json={"from": "x", "to": "y"}).json()["code"] == "REST-036"
    assert caller.post("/v1/jobs/orders/backfills", json={**body, "to": "9999-12-31T23:59:59+00:00"}).status_code == 422


class TestHooks:
    @pytest.fixture
    def hooked(self, caller):
        caller.put("/v1/secrets/HOOK", json={"value": CANARY})
        event = {"webhook": "arrived", "secret": "HOOK"}
        assert caller.put("/v1/jobs/orders/schedule", json={"type": "event", "event": event}).status_code == 200
        del caller.headers["Authorization"]
        return caller

    def call(self, client, *, secret=CANARY, call="c1", body=b"anything", at=NOON, name="arrived"):
        time = str(int(at.timestamp()))
        headers = {
            "X-Millstream-Id": call,
            "X-Millstream-Time": time,
            "X-Millstream-Signature": signature_of(secret.encode(), time, call, body),
        }
        return client.post(f"/v1/hooks/{name}", content=body, headers=headers)

    def test_once_each(self, hooked):
        first = self.call(hooked)
        assert (first.status_code, first.json()["result"]) == (202, "FIRED"), first.text
        assert self.call(hooked).json()["code"] == "CTL-220"

    def test_what_is_not_believed(self, hooked, clock):
        assert (self.call(hooked, secret="other").status_code, self.call(hooked, secret="other").json()["code"]) == (
            401,
            "CTL-221",
        )
        clock.forward(301)
        assert self.call(hooked).status_code == 401
        assert hooked.post("/v1/hooks/arrived").status_code == 422
        assert hooked.get("/v1/hooks/arrived").status_code == 401
        assert hooked.post("/v1/hooks/../jobs", json={}).status_code == 401


def test_without_the_parts_there_are_no_routes(admin):
    assert admin.get("/v1/secrets").status_code == 404
    assert admin.get("/v1/artifacts").status_code == 404
    body = job_body(config={"checkpoint.retention": {"value": 3, "type": "INT"}})
    assert admin.post("/v1/jobs", json=body).json()["code"] == "REST-035"
    assert admin.post("/v1/jobs", json={"dag_definition": definition(), "artifact": "0" * 64}).status_code == 404
