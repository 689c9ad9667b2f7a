"""Connectors over HTTP: what there is, what a form needs of one, and first looks in processes of their own."""

import functools
import http.server
import json
import threading
import time

import pytest
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, tokens_of, whole_service

from millstream.contract.reach import Reach
from millstream.control.dispatcher import trying
from millstream.control.dispatcher.planning import planned_apart
from millstream.registry import names
from millstream.server.app import create_app
from millstream.server.limits import Limits

CANARY = "canary-1d9e7/+&"


@pytest.fixture
def tokens(metadata):
    return tokens_of(metadata)


@pytest.fixture
def editor(metadata, tmp_path, tokens):
    limits = Limits(requests_per_second=1000, burst=1000)
    reach = Reach(private=True, closed=(str(tmp_path / "own"),))
    planner = functools.partial(planned_apart, reach=reach)
    service = whole_service(metadata, tmp_path, planner=planner, limits=limits, reach=reach)
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        client.headers.update(bearer(tokens["editor"]))
        yield client


def look(client, name, **body):
    return client.post(f"/v1/connectors/{name}/test", json=body)


def test_connectors_are_listed(editor):
    items = editor.get("/v1/connectors").json()["items"]
    assert [each["name"] for each in items] == names("connectors")
    (kafka,) = [each for each in items if each["name"] == "kafka"]
    assert kafka["source"][0] == "REPLAYABLE"
    assert kafka["extras"][0]["name"] == "kafka"


@pytest.mark.parametrize("name", names("connectors"))
def test_a_form_can_be_made_of_each(editor, name):
    shown = editor.get(f"/v1/connectors/{name}")
    assert shown.status_code == 200, shown.text
    for role, options in shown.json()["options"].items():
        assert role in ("source", "sink")
        for option in options:
            assert option["doc"]
            assert option["type"]
            assert not (option["required"] and option["default"] is not None)
    assert {each["role"] for each in shown.json()["promises"]} == set(shown.json()["options"])


def test_what_a_form_hides(editor):
    options = {each["name"]: each for each in editor.get("/v1/connectors/http").json()["options"]["source"]}
    assert {name for name, each in options.items() if each["may_hold_secrets"]} >= {"auth", "headers", "params"}
    assert not options["method"]["may_hold_secrets"]
    assert options["method"]["choices"] == ["GET", "POST"]


def test_a_connector_that_is_not_there(editor):
    for answer in (editor.get("/v1/connectors/nothing"), look(editor, "nothing", options={})):
        assert (answer.status_code, answer.json()["code"]) == (422, "CONN-001")


@pytest.mark.parametrize("place", ["{own}", "${{secret:PLACE}}"])
def test_files_of_the_service_are_not_looked_at(editor, tmp_path, place):
    own = tmp_path / "own"
    own.mkdir()
    (own / "admin.token").write_text(CANARY)
    editor.put("/v1/secrets/PLACE", json={"value": str(own)})
    for role in ("source", "sink"):
        options = {"path": place.format(own=own), "format": "csv"}
        answer = look(editor, "files", role=role, options=options, schema="told string")
        assert (answer.status_code, answer.json()["code"]) == (422, "CTL-131")
        assert CANARY not in answer.text


def test_the_first_rows(editor, tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    (place / "a.json").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    answer = look(editor, "files", options={"path": str(place), "format": "json"}, schema="n long", rows=2)
    assert answer.status_code == 200, answer.text
    seen = answer.json()["seen"]
    assert seen["rows"] == [{"n": 1}, {"n": 2}]
    assert answer.json()["took"] < 20


def test_a_sink_is_looked_at(editor, tmp_path):
    options = {"path": str(tmp_path / "out")}
    answer = look(editor, "files", role="sink", options=options, schema="n long")
    assert answer.status_code == 200, answer.text
    assert answer.json()["seen"]["is_looked_at"]
    assert answer.json()["seen"]["found"]
    assert not (tmp_path / "out").exists()
    assert look(editor, "print", role="sink", options={}, schema="n long").json()["seen"]["is_looked_at"] is False


class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen = self.headers.get("X-Told", "")
        body = json.dumps([{"told": seen, "again": f"-{seen}-", "long": "x" * 5000}] * 3).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def echo():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_secrets_go_there_and_never_come_back(editor, echo):
    editor.put("/v1/secrets/TOLD", json={"value": CANARY})
    options = {"url": echo, "headers": {"X-Told": "${secret:TOLD}"}, "allow_private": True}
    answer = look(editor, "http", options=options, schema="told string, again string, long string", rows=3)
    assert answer.status_code == 200, answer.text
    assert [each["told"] for each in answer.json()["seen"]["rows"]] == ["***"] * 3
    assert CANARY not in answer.text
    assert len(answer.json()["seen"]["rows"][0]["long"]) <= 1001
    missing = look(editor, "http", options={**options, "headers": {"X-Told": "${secret:OTHER}"}}, schema="told string")
    assert (missing.status_code, missing.json()["code"]) == (404, "CTL-306")


def test_this_machine_is_not_asked(editor, echo):
    answer = look(editor, "http", options={"url": echo}, schema="told string")
    assert answer.status_code in (422, 502)
    assert answer.json()["code"].startswith("HTTP-")


def test_no_function_is_called(editor):
    answer = look(editor, "loader", options={"function": "os:getcwd"}, schema="n long")
    assert (answer.status_code, answer.json()["details"]["domain"]) == (422, "user")


def test_a_library_that_hangs(editor, monkeypatch):
    server = threading.Event()
    sleeping = __import__("socket").create_server(("127.0.0.1", 0))  # takes connections and never answers
    monkeypatch.setattr(trying, "_START_SECONDS", 4.0)
    url = f"postgresql://me@127.0.0.1:{sleeping.getsockname()[1]}/shop"
    begun = time.monotonic()
    answer = look(editor, "jdbc", options={"url": url, "table": "t", "key": "id"}, schema="id long", seconds=1)
    sleeping.close()
    assert answer.status_code == 502, answer.text
    assert time.monotonic() - begun < 20
    assert not server.is_set()
    assert editor.get("/v1/health").status_code == 200


def test_who_may(editor, tokens):
    editor.headers.update(bearer(tokens["operator"]))
    assert look(editor, "rate", options={"rows_per_second": 1}).json()["code"] == "REST-011"
    editor.headers.update(bearer(tokens["viewer"]))
    assert editor.get("/v1/connectors").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"options": []},
        {"options": {"rows_per_second": 1}, "rows": 0},
        {"options": {"rows_per_second": 1}, "rows": 1000},
        {"options": {"rows_per_second": 1}, "seconds": 3600},
        {"options": {"rows_per_second": 1}, "seconds": "x"},
        {"options": {"rows_per_second": 1}, "unknown": 1},
        {"options": {"rows_per_second": -1}},
        {"options": {"nothing": 1}},
        {"options": {"rows_per_second": 1}, "role": "sink"},
        {"options": {"rows_per_second": 1}, "role": "x"},
        {"options": {"rows_per_second": 1}, "schema": {"n": "nothing"}},
    ],
)
def test_what_does_not_fit(editor, body):
    answer = look(editor, "rate", **body)
    assert answer.status_code == 422, answer.text
