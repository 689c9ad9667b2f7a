"""Jobs and runs over HTTP."""

from tests.unit.server.world import job_body


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
