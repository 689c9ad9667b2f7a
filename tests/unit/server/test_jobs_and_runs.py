"""Jobs and runs over HTTP."""

import re

from sqlalchemy import insert
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, job_body, tokens_of, whole_service

from millstream.control.act import acting
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.tables.runs import savepoint
from millstream.server.app import create_app


def test_a_job_is_submitted_listed_and_started(admin):
    made = admin.post("/v1/jobs", json=job_body())
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/v1/jobs/orders"
    assert made.json()["version"] == 1
    assert made.json()["create_time"] == "2026-03-01T12:00:00Z"
    listed = admin.get("/v1/jobs").json()
    assert [each["name"] for each in listed["items"]] == ["orders"]
    run = admin.post("/v1/jobs/orders/runs", json={})
    assert run.status_code == 202, run.text
    identifier = run.json()["id"]
    assert run.headers["location"] == f"/v1/runs/{identifier}"
    assert admin.get(f"/v1/runs/{identifier}").json()["status"] == "SCHEDULED"
    assert admin.get("/v1/jobs?state=SCHEDULED").json()["items"][0]["run"]["id"] == identifier
    assert admin.get("/v1/jobs?state=RUNNING").json()["items"] == []
    stopped = admin.post(f"/v1/runs/{identifier}/stop", json={"mode": "cancel"})
    assert stopped.status_code == 202, stopped.text
    done = admin.get(stopped.headers["location"]).json()
    assert done["status"] == "done"
    events = admin.get(f"/v1/runs/{identifier}/events").json()["items"]
    assert [each["after"] for each in events] == ["SCHEDULED", "CANCELLED"]


def examples_of(app):
    """Method, path and body of every call that has an example."""
    described = app.openapi()
    for path, calls in described["paths"].items():
        for method, call in calls.items():
            schema = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            named = described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
            examples = [named["example"]] if "example" in named else named.get("examples", [])
            for example in examples:
                yield method, path, example


def test_examples_of_the_document_can_be_sent(metadata, tmp_path):
    app = create_app(whole_service(metadata, tmp_path))
    token = tokens_of(metadata)["admin"]
    sent = 0
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers.update(bearer(token))
        etag = client.post("/v1/jobs", json=job_body()).headers["etag"]
        client.put("/v1/jobs/orders/schedule", json={"type": "cron", "cron": "0 0 * * *"})
        run = client.post("/v1/jobs/orders/runs", json={}).json()["id"]
        saved = {"execution_id": run, "trigger_id": "t", "path": "/s", "format": "canonical", "status": "READY"}
        with acting(metadata) as act:
            row = insert(savepoint).values(**saved, job_id=run_of(act, run).job_id, create_time=act.now)
            number = act.connection.execute(row.returning(savepoint.c.id)).scalar_one()
        values = {"name": "orders", "run": run, "key": "checkpoint.retention", "savepoint": number}
        for method, path, body in examples_of(app):
            place = path.format(**{**dict.fromkeys(re.findall(r"\{(\w+)\}", path), "x"), **values})
            answer = client.request(
                method, place, json=body, headers={"If-Match": etag} if path == "/v1/jobs/{name}" else {}
            )
            # A login with the token of an example is refused, and one run may stand in the way of another.
            assert answer.status_code in (200, 201, 202, 204, 401, 409, 412, 422), (path, answer.text)
            assert answer.json()["code"] not in ("REST-005", "REST-006") if answer.status_code == 422 else True, path
            sent += 1
    assert sent >= 13
