"""Clients that send a byte now and then, over real sockets: none of them is waited for for long."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time

import pytest
from tests.unit.server.world import service_of, tokens_of, whole_service

from millstream.errors import RequestRefused
from millstream.server.intake import BodyIntake
from millstream.server.limits import Limits
from millstream.server.patience import PatientProtocol
from millstream.server.serving import listening, server_of

SECONDS = 0.5
LIMITS = Limits(body_seconds=SECONDS, archive_rate=1000)


@pytest.fixture
def address(metadata, tmp_path, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "seconds", SECONDS)
    server, opened = server_of(whole_service(metadata, tmp_path, limits=LIMITS)), listening("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    yield opened.getsockname()
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def token(metadata):
    return tokens_of(metadata)["admin"]


def head(path, token, length, method="POST", kind="application/json"):
    fields = [f"Host: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"]
    fields += [f"Authorization: Bearer {token}\r\n"] if token else []
    return f"{method} {path} HTTP/1.1\r\n{''.join(fields)}\r\n".encode()


def dripping(address, first, drip=b"a", *, every=SECONDS / 10, most=20 * SECONDS):
    """What the server says to a client that sends a piece now and then; fails where it listens on and on."""
    end, said = time.monotonic() + most, b""
    with socket.create_connection(address) as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(every)
        connection.sendall(first)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                piece = connection.recv(65536)
                if not piece:
                    return said
                said += piece
                continue
            if drip:
                connection.sendall(drip)
        pytest.fail(f"the server waits on and on, having said {said!r}")
    return said


@pytest.mark.parametrize("first", [b"", b"GET /v1/health HTTP/1.1\r\nX-Slow: "])
@pytest.mark.parametrize("drip", [b"", b"a"])
def test_a_head_that_does_not_end(address, first, drip):
    assert dripping(address, first, drip) == b""


def test_the_head_of_a_second_request(address):
    whole = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    said = dripping(address, whole + b"GET /v1/hea")
    assert (said.count(b"HTTP/1.1 "), said[:12]) == (1, b"HTTP/1.1 200")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/artifacts?name=a.zip"])
@pytest.mark.parametrize("drip", [b"", b" "])
def test_a_body_that_does_not_end(address, token, path, drip):
    said = dripping(address, head(path, token, 10_000), drip)
    assert said.startswith(b"HTTP/1.1 408"), said
    assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == "REST-008"


def test_the_body_of_a_request_that_was_refused(address):
    said = dripping(address, head("/v1/jobs", None, 10_000))
    assert said.startswith(b"HTTP/1.1 401"), said


def test_an_archive_may_take_longer_where_it_comes_fast_enough(address, token):
    pieces, size = 16, 500
    with socket.create_connection(address) as connection:
        connection.sendall(head("/v1/artifacts?name=a.zip", token, pieces * size))
        for _ in range(pieces):
            connection.sendall(b"x" * size)
            time.sleep(SECONDS / 6)
        connection.settimeout(20)
        answer = connection.recv(65536)
    assert answer[:12] != b"HTTP/1.1 408", answer
    assert b"CTL-35" in answer, "it is looked at as the archive that it is not"


def test_whoever_is_quick_stays_connected(address, token):
    connection = http.client.HTTPConnection(*address, timeout=10)
    told = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        for _ in range(3):
            connection.request("POST", "/v1/jobs", b"{}", told)
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (422, True)
            assert connection.sock is not None, "the connection was kept"
            time.sleep(SECONDS * 1.2)


def test_a_body_whose_client_left_is_no_body(metadata):
    """What came of it was valid by itself."""
    messages = [{"type": "http.request", "body": b"{}", "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def acts(scope, receive, send):
        pytest.fail("a part of a body was handed on")

    for path in ("/v1/jobs", "/v1/hooks/x"):
        left = [*messages]
        scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", b"application/json")]}
        with pytest.raises(RequestRefused, match="client left"):
            asyncio.run(BodyIntake(acts, service_of(metadata))(scope, receive, None))
        messages[:] = left
