"""Rights end at once: on every server of the service, and on streams that are open."""

import contextlib
import threading
import time

import httpx2
import pytest
from tests.unit.server.world import bearer, service_of, tokens_of

from millstream.server.limits import Limits
from millstream.server.serving import listening, server_of

QUICK = Limits(recheck_seconds=0.2, comment_seconds=0.1, poll_seconds=0.05)


@contextlib.contextmanager
def served(metadata):
    """A server process as far as callers can tell: an application of its own, on a port of its own."""
    server, opened = server_of(service_of(metadata, limits=QUICK)), listening("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{opened.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def two(both):
    with served(both) as one, served(both) as other:
        yield one, other, tokens_of(both)


@contextlib.contextmanager
def listener(url, headers):
    """Reads a stream until it ends; gives a function that waits for that."""
    ended, began = threading.Event(), threading.Event()

    def read():
        with httpx2.stream("GET", f"{url}/events", headers=headers, timeout=10) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_lines():
                began.set()
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(10)
    yield ended
    thread.join(20)


def revoke(url, tokens, role):
    identifier = tokens[role].split("_")[1]
    assert httpx2.delete(f"{url}/tokens/{identifier}", headers=bearer(tokens["admin"])).status_code == 200


def test_a_token_that_is_revoked_at_one_server_is_dead_at_the_other(two):
    one, other, tokens = two
    viewer = bearer(tokens["viewer"])
    assert httpx2.get(f"{other}/info", headers=viewer).status_code == 200
    revoke(one, tokens, "viewer")
    assert httpx2.get(f"{other}/info", headers=viewer).status_code == 401


def test_its_stream_at_the_other_ends_in_seconds(two):
    one, other, tokens = two
    with listener(other, bearer(tokens["viewer"])) as ended, listener(other, bearer(tokens["operator"])) as goes_on:
        time.sleep(0.5)
        assert not ended.is_set()
        revoke(one, tokens, "viewer")
        assert ended.wait(5)
        assert not goes_on.is_set(), "another's stream is not touched"
        revoke(one, tokens, "operator")
        assert goes_on.wait(5)


def test_the_stream_of_a_session_ends_with_it(two):
    one, other, tokens = two
    with httpx2.Client(base_url=one) as page:
        opened = page.post("/session", json={"token": tokens["viewer"]})
        cookie = {"Cookie": opened.headers["set-cookie"].split(";")[0]}
        csrf = page.get("/session", headers=cookie).json()["csrf"]
        with listener(other, cookie) as ended:
            right = {**cookie, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": csrf}
            assert page.delete("/session", headers=right).status_code == 204
            assert ended.wait(5)
    assert httpx2.get(f"{other}/info", headers=bearer(tokens["viewer"])).status_code == 200
