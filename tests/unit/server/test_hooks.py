"""Whoever cannot sign learns nothing of webhooks: not by the answer, and not by what the service does to give it."""

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient
from tests.unit.server.world import NOON, bearer, job_body, tokens_of, whole_service

from millstream.control.schedule.webhook import signature_of
from millstream.control.secrets import cipher
from millstream.server.app import create_app

STRANGE = ["arrived", "unknown", "unset", "broken"]


@pytest.fixture
def hooked(metadata, tmp_path, ticking):
    """A service with three webhooks: one in order, one whose secret is gone, one whose secret cannot be read."""
    service = whole_service(metadata, tmp_path, monotonic=ticking)
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        admin = bearer(tokens_of(metadata)["admin"])
        for name in ("arrived", "unset", "broken"):
            client.post("/v1/jobs", json=job_body(name), headers=admin)
            client.put(f"/v1/secrets/{name.upper()}", json={"value": f"key of {name}"}, headers=admin)
            wanted = {"type": "event", "event": {"webhook": name, "secret": name.upper()}}
            assert client.put(f"/v1/jobs/{name}/schedule", json=wanted, headers=admin).status_code == 200
        assert client.delete("/v1/secrets/UNSET", headers=admin).status_code == 204
        with metadata.begin() as connection:
            connection.exec_driver_sql("UPDATE secret SET ciphertext = x'00' WHERE name = 'BROKEN'")
        yield client


def call(client, name, *, secret="guessed", time=str(int(NOON.timestamp())), signature=None):
    signature = signature or signature_of(secret.encode(), time, "c1", b"{}")
    headers = {"X-Millstream-Id": "c1", "X-Millstream-Time": time, "X-Millstream-Signature": signature}
    return client.post(f"/v1/hooks/{name}", content=b"{}", headers=headers)


@pytest.mark.parametrize("wrong", [{}, {"time": "0"}, {"time": "soon"}, {"signature": "none"}])
def test_every_name_gets_the_same_answer(hooked, wrong):
    answers = [call(hooked, name, **wrong) for name in STRANGE]
    told = {(answer.status_code, answer.text.replace(answer.headers["x-request-id"], "")) for answer in answers}
    assert len(told) == 1
    headers = [{k: v for k, v in answer.headers.items() if k != "x-request-id"} for answer in answers]
    assert headers == [headers[0]] * len(STRANGE)


def test_every_name_takes_the_same_steps(hooked, metadata, monkeypatch):
    """The time that an answer takes is that of its statements and of the decryption."""
    steps, bound = [], cipher._bound_to
    monkeypatch.setattr(cipher, "_bound_to", lambda *names: steps.append("decrypt") or bound(*names))
    event.listen(metadata.engine, "before_cursor_execute", lambda *told: steps.append(told[2]))
    told = []
    for name in ("arrived", "unknown", "unset"):
        assert call(hooked, name).status_code == 401
        told.append(steps.copy())
        steps.clear()
    assert "decrypt" in told[0]
    assert told == [told[0]] * 3


def test_the_right_secret_still_fires(hooked):
    assert call(hooked, "arrived", secret="key of arrived").status_code == 202
    assert call(hooked, "unset", secret="key of unset").status_code == 401
