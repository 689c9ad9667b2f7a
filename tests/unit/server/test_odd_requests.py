"""Requests as nobody should send them: each gets the one error object."""

import asyncio
import contextlib
import json

import pytest
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, definition, job_body, plan_here, service_of, tokens_of

from millstream.errors import ExternalFailure, MillstreamError
from millstream.server.app import create_app
from millstream.server.front import Front
from millstream.server.limits import Limits

FIELDS = {"code", "message", "details", "how_to_fix", "request_id"}


def refusal(answer, status, code):
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == FIELDS
    assert told["code"] == code
    assert told["how_to_fix"]
    assert told["request_id"] == answer.headers["x-request-id"]
    return told


def raw(client, content, kind="application/json", path="/v1/jobs", method="POST"):
    return client.request(method, path, content=content, headers={"Content-Type": kind})


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"nothing",
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1}x',
        b'"\\ud8',
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_not_json(admin, content):
    refusal(raw(admin, content), 400, "REST-005")


@pytest.mark.parametrize(
    "content", [b'{"name": "a\\u0000"}', b'{"name": "\\ud800"}', b'{"\\u0000": 1}', b'{"a": 1e999}']
)
def test_what_cannot_be_stored(admin, content):
    refusal(raw(admin, content), 422, "REST-006")


def test_escapes_that_only_look_like_it(admin):
    assert raw(admin, b'{"name": "\\\\u0000"}').json()["code"] == "REST-006"
    assert "dag_definition" in raw(admin, b'{"name": "\\\\u0000"}').text


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_other_types(admin, kind):
    refusal(raw(admin, b"{}", kind), 415, "REST-004")


def test_large_bodies(admin):
    big = b'{"name": "' + b"x" * (1024 * 1024) + b'"}'
    refusal(raw(admin, big), 413, "REST-003")
    refusal(raw(admin, iter([big[:600_000], big[600_000:]])), 413, "REST-003")
    assert raw(admin, big[: 1024 * 1024 - 2] + b'"}').status_code == 422


def test_deep_bodies(admin):
    def nested(depth):
        return b'{"dag_definition": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"

    refusal(raw(admin, nested(32)), 422, "REST-007")
    refusal(raw(admin, b"[" * 500_000), 422, "REST-007")
    assert raw(admin, nested(31)).json()["code"] != "REST-007"
    assert raw(admin, b'{"name": "' + b"[" * 100 + b'"}').json()["code"] == "REST-006"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/jobs", {}),
        ("/v1/jobs", {"dag_definition": 1}),
        ("/v1/jobs", {"dag_definition": {}, "unknown": 1}),
        ("/v1/jobs", {"dag_definition": {}, "max_retry_times": -1}),
        ("/v1/jobs", {"dag_definition": {}, "max_retry_times": 10**30}),
        ("/v1/jobs", {"dag_definition": {}, "max_retry_times": "3"}),
        ("/v1/jobs", {"dag_definition": {}, "artifact": "../../etc/passwd"}),
        ("/v1/jobs/orders/runs", {"unknown": 1}),
        ("/v1/jobs/orders/runs", {"parallelism": 0}),
        ("/v1/jobs/orders/runs", {"trigger_id": "x" * 201}),
        ("/v1/runs/x/stop", {"mode": "explode"}),
        ("/v1/runs/x/stop", []),
        ("/v1/tokens", {"name": "a\nb", "role": "viewer"}),
        ("/v1/tokens", {"name": "a", "role": "root"}),
    ],
)
def test_bodies_that_do_not_fit(admin, path, body):
    refusal(admin.post(path, json=body), 422, "REST-006")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs?limit=0",
        "/v1/jobs?limit=1001",
        "/v1/jobs?limit=x",
        "/v1/jobs?cursor=" + "x" * 1001,
        "/v1/jobs/orders/versions/0",
        "/v1/jobs/orders/versions/99999999999",
        "/v1/jobs/orders/plan?layer=secret",
        "/v1/savepoints/-1",
        "/v1/savepoints/99999999999999999999999",
        "/v1/jobs/a%00b",
        "/v1/jobs?q=%00",
        "/v1/events?topics=../../etc/passwd",
    ],
)
def test_addresses_that_do_not_fit(admin, path):
    refusal(admin.get(path), 422, "REST-006")


def test_what_is_not_there(admin):
    refusal(admin.get("/v1/nothing"), 404, "REST-001")
    refusal(admin.get("/v1/jobs/unknown"), 404, "CTL-024")
    refusal(admin.get("/v1/runs/unknown"), 404, "CTL-034")
    refusal(admin.get("/v1/operations/unknown"), 404, "CTL-014")
    refusal(admin.get("/v1/nodes/unknown"), 404, "CTL-041")
    refusal(admin.get("/v1/savepoints/7"), 404, "REST-034")
    refusal(admin.delete("/v1/tokens/unknown"), 404, "REST-026")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "ODD"])
def test_odd_methods(admin, method):
    answer = admin.request(method, "/v1/jobs")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST"}


def test_names_with_markup_and_paths_are_text(admin):
    for name in ("<script>alert(1)</script>", "../../../etc/passwd", "a'; DROP TABLE session; --"):
        answer = admin.get("/v1/jobs", params={"q": name})
        assert answer.json() == {"items": [], "next": None}
        assert answer.headers["content-type"] == "application/json"


def test_headers_hold_nothing_of_the_request(admin):
    answer = admin.get("/v1/jobs/x%0d%0aSet-Cookie:%20a=b", headers={"X-Request-ID": "mine"})
    assert answer.status_code == 404
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-request-id"] != "mine"


@contextlib.contextmanager
def served(metadata, planner):
    token = tokens_of(metadata)["admin"]
    with TestClient(create_app(service_of(metadata, planner=planner)), raise_server_exceptions=False) as client:
        client.headers.update(bearer(token))
        yield client


@pytest.mark.parametrize(
    ("problem", "status", "code"),
    [
        (RuntimeError("postgresql://user:hunter2@host"), 500, "REST-050"),
        (MillstreamError("hunter2", code="OUR-001"), 500, "REST-050"),
        (RecursionError("hunter2"), 500, "REST-050"),
        (ExternalFailure("the planner is away"), 502, "EXT-001"),
        (ExternalFailure("the database is away", code="CTL-002"), 503, "CTL-002"),
        (PermissionError("hunter2"), 502, "EXT-001"),
    ],
)
def test_what_is_not_the_callers_mistake(metadata, problem, status, code):
    def broken(*_, **__):
        raise problem

    with served(metadata, broken) as client:
        answer = client.post("/v1/jobs", json=job_body())
        refusal(answer, status, code)
        assert "hunter2" not in answer.text
        assert "Traceback" not in answer.text
        assert (answer.headers.get("retry-after") is not None) == (status == 503)


def test_a_server_that_goes_down_says_so(metadata):
    asked = asyncio.Event()

    async def waits(scope, receive, send):
        asked.set()
        await asyncio.Event().wait()

    async def cut_off():
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": [], "client": ("127.0.0.1", 1)}
        task = asyncio.create_task(Front(waits, service_of(metadata))(scope, receive, send))
        await asked.wait()
        task.cancel()
        await task
        return sent

    start, body = asyncio.run(cut_off())
    assert start["status"] == 503
    assert json.loads(body["body"])["code"] == "REST-052"
    assert b"retry-after" in dict(start["headers"])


def test_a_database_that_is_away(metadata, tmp_path):
    with served(metadata, plan_here) as client:
        metadata.close()
        (tmp_path / "metadata.db").rename(tmp_path / "away.db")
        (tmp_path / "metadata.db").mkdir()
        refusal(client.get("/v1/ready"), 503, "CTL-002")
        assert client.get("/v1/health").status_code == 200
        refusal(client.get("/v1/jobs"), 503, "CTL-002")


def test_what_is_wrong_with_a_job_is_told(admin):
    body = job_body()
    body["dag_definition"]["steps"][0]["from"] = {"kafkaa": {}}
    told = admin.post("/v1/jobs/validate", json=body)
    assert told.status_code == 422
    assert "kafkaa" in told.json()["message"] + str(told.json()["details"])


def test_a_name_or_type_that_the_definition_does_not_have(admin):
    assert admin.post("/v1/jobs", json={**job_body(), "name": "other"}).json()["code"] == "REST-028"
    assert admin.post("/v1/jobs", json={**job_body(), "type": "SQL_TASK"}).json()["code"] == "REST-028"
    unnamed = definition()
    del unnamed["job"]
    assert admin.post("/v1/jobs", json={"name": "named", "dag_definition": unnamed}).json()["name"] == "named"


def test_limits_are_those_of_the_service(metadata):
    limits = Limits(body_bytes=100, json_depth=2)
    token = tokens_of(metadata)["admin"]
    with TestClient(create_app(service_of(metadata, limits=limits))) as client:
        client.headers.update(bearer(token))
        refusal(raw(client, b" " * 101), 413, "REST-003")
        refusal(raw(client, b"[[[1]]]"), 422, "REST-007")
