"""Answers on the wire: read the same way however their bytes come, and never more or less than they are."""

import contextlib
import socket
import threading
import time

import pytest

from millstream.connectors.http.asking.addresses import allowed_hosts
from millstream.connectors.http.asking.client import HttpClient, NoAnswer
from millstream.connectors.http.asking.plain_wire import plain_head, plain_request
from millstream.connectors.http.paging.page_request import PageRequest
from millstream.connectors.http.settings import ClientLimits

OK = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "plain": OK + b"Content-Length: 3\r\nX-A: b\r\n\r\nabc",
    "kept": OK + b"Connection: keep-alive\r\nKeep-Alive: timeout=5\r\ncontent-length:3\r\n\r\nabc",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
    "empty": OK + b"Content-Length: 0\r\n\r\n",
    "chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
    "chunked and counted": OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "closed at the end": OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc",
    "until the close": OK + b"X: y\r\n\r\nabc",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "nothing inside": b"HTTP/1.1 204 No Content\r\n\r\n",
    "hints before": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\nabc",
    "the same length twice": OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a folded header": OK + b"X-A: b\r\n c\r\nContent-Length: 3\r\n\r\nabc",
    "a value of many letters": OK + b"X-A: \xc3\xa4 b\t\r\nContent-Length: 3\r\n\r\nabc",
    "two values": OK + b"X-A: b\r\nX-A: c\r\nContent-Length: 3\r\n\r\nabc",
}
NO_ANSWERS = {
    "nothing": b"",
    "half a head": OK + b"Content-Le",
    "half a body": OK + b"Content-Length: 9\r\n\r\nabc",
    "half of chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nab",
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "a length that is none": OK + b"Content-Length: +3\r\n\r\nabc",
    "another transfer": OK + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "a name that is none": OK + b"X A: b\r\nContent-Length: 3\r\n\r\nabc",
    "a value that is none": OK + b"X-A: b\x00\r\nContent-Length: 3\r\n\r\nabc",
    "no HTTP": b"220 mail ESMTP\r\n\r\n",
    "a switch": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


class RawServer:
    """Says the same bytes to each request, in pieces of so many; and closes the connection if it is told to."""

    def __init__(self, said, *, piece, closes=True):
        self.connections = 0
        self._said, self._piece, self._closes = said, piece, closes
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                for at in range(0, len(self._said), self._piece):
                    connection.sendall(self._said[at : at + self._piece])
                    if self._piece < len(self._said):
                        time.sleep(0.0005)
                if self._closes:
                    return

    def close(self):
        self._socket.close()


@contextlib.contextmanager
def asking(said, *, piece=1 << 20, closes=True):
    server = RawServer(said, piece=piece, closes=closes)
    client = HttpClient(allowed_hosts([server.url], [], private=True), ClientLimits(5.0, 5.0, 1 << 20))

    def ask():
        return client.send(PageRequest("GET", f"{server.url}/x", query=(("page", "1"),)), {}.__getitem__)

    try:
        yield server, ask
    finally:
        client.close()
        server.close()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_same_however_its_bytes_come(name):
    found = []
    for piece in (1 << 20, 7, 1):
        with asking(ANSWERS[name], piece=piece) as (_, ask):
            found.append(ask())
    assert found[0] == found[1] == found[2]
    assert found[0].body in (b"abc", b"{}", b"")


@pytest.mark.parametrize("name", NO_ANSWERS)
@pytest.mark.parametrize("piece", [1 << 20, 7])
def test_what_is_not_whole_or_not_as_http_says_is_no_answer(name, piece):
    with asking(NO_ANSWERS[name], piece=piece) as (_, ask), pytest.raises(NoAnswer):
        ask()


def test_two_values_of_a_header_are_joined():
    with asking(ANSWERS["two values"]) as (_, ask):
        assert ask().headers == {"x-a": "b, c", "content-length": "3"}


@pytest.mark.parametrize("name", ["plain", "kept", "chunked", "empty", "nothing inside"])
def test_a_connection_that_goes_on_is_used_again(name):
    with asking(ANSWERS[name], closes=False) as (server, ask):
        assert ask() == ask() == ask()
        assert server.connections == 1


@pytest.mark.parametrize("name", ["plain", "chunked"])
def test_what_comes_behind_an_answer_is_not_the_next_one(name):
    false = OK + b"Content-Length: 5\r\n\r\nfalse"
    with asking(ANSWERS[name] + false, closes=False) as (server, ask):
        assert [ask().body for _ in range(3)] == [b"abc"] * 3
        assert server.connections == 3


def test_a_connection_that_the_server_closed_is_not_used_again():
    with asking(ANSWERS["plain"]) as (server, ask):
        for _ in range(3):
            assert ask().body == b"abc"
            time.sleep(0.05)
        assert server.connections == 3


def test_a_body_of_several_reads_is_whole():
    body = bytes(range(256)) * 1024
    with asking(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body, closes=False) as (server, ask):
        assert [ask().body for _ in range(3)] == [body] * 3
        assert server.connections == 1


# What is plain, and what is left to h11.


@pytest.mark.parametrize("name", ["plain", "kept", "not found", "empty"])
def test_most_answers_are_plain(name):
    assert plain_head(ANSWERS[name]) is not None


@pytest.mark.parametrize(
    "name", [*sorted(set(ANSWERS) - {"plain", "kept", "not found", "empty", "two values"}), *NO_ANSWERS]
)
def test_no_other_is(name):
    head = plain_head(ANSWERS.get(name) or NO_ANSWERS[name])
    assert head is None or name in ("a value of many letters", "half a body")


def test_a_question_is_written_as_h11_writes_it():
    h11 = pytest.importorskip("h11")
    headers = [(b"Host", b"h:1"), (b"Accept", b"*/*"), (b"X-A", "ä".encode())]
    request = h11.Request(method="GET", target=b"/a?b=c", headers=headers)
    assert plain_request("GET", b"/a?b=c", headers, b"") == h11.Connection(h11.CLIENT).send(request)


@pytest.mark.parametrize(
    ("method", "target", "header", "content"),
    [
        ("POST", b"/", (b"A", b"b"), b""),
        ("GET", b"/", (b"A", b"b"), b"x"),
        ("GET", b"/a b", (b"A", b"b"), b""),
        ("GET", b"/\r\nX: y", (b"A", b"b"), b""),
        ("GET", b"/", (b"Content-Length", b"3"), b""),
        ("GET", b"/", (b"Transfer-encoding", b"chunked"), b""),
        ("GET", b"/", (b"Connection", b"close"), b""),
        ("GET", b"/", (b"Expect", b"100-continue"), b""),
    ],
)
def test_other_requests_are_left_to_h11(method, target, header, content):
    assert plain_request(method, target, [(b"Host", b"h"), header], content) is None
