"""One connection that speaks HTTP/1.1: a request goes out, its answer comes in, and then the next one may follow.

What is allowed on the wire, h11 decides. It is spoken to directly, and not at all where request and answer are of the plainest
form: a layer between would cost as much for every page as the page.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

from millstream.connectors.http.asking.library import h11, httpcore2
from millstream.connectors.http.asking.plain_wire import Headers, PlainHead, plain_head, plain_request

_READ_BYTES = 64 << 10
_LONGEST_HEAD = 100 << 10
_KEPT_SECONDS = 30.0


class WireOrigin(NamedTuple):
    """Where a connection leads."""

    scheme: str
    host: str
    port: int


class WireRequest(NamedTuple):
    """A request as it is sent."""

    origin: WireOrigin
    method: str
    target: bytes
    headers: Headers
    content: bytes


class WireAnswer(NamedTuple):
    """An answer, of which the head has come; reading `parts` waits for the rest."""

    status: int
    headers: Headers
    parts: Iterator[bytes]


class WireConnection:
    """A connection; one thread at a time asks."""

    def __init__(self, origin: WireOrigin, opened: socket.socket, seconds: float) -> None:
        """`seconds` is the longest that one step may wait: some bytes sent, or some received."""
        self.origin = origin
        self._socket = opened
        opened.settimeout(seconds)
        self._talk: h11.Connection | None = None
        """What judges the request that is under way, unless it is plain as its answer is."""
        self._is_read = False
        """Whether a plain answer was read to its end, and nothing came behind it."""
        self._idle_since = 0.0

    def asked(self, request: WireRequest) -> WireAnswer:
        """Send a request and wait for the head of its answer.

        Raises:
            NetworkError: the connection broke.
            TimeoutException: a step took too long.
            ProtocolError: something is not as HTTP says.
        """
        plain = plain_request(request.method, request.target, request.headers, request.content)
        self._is_read = False
        self._talk, pieces = _judged(request) if plain is None else (None, (plain,))
        # A server may answer before it has read everything, and read no more: what it says is worth more than the error.
        with contextlib.suppress(httpcore2.WriteError):
            for piece in pieces:
                self._write(piece)
        came = self._read()
        head = plain_head(came) if plain is not None else None
        if head is not None:
            return WireAnswer(head.status, head.headers, self._plain_parts(head, came))
        return self._answer(request, came)

    def _plain_parts(self, head: PlainHead, came: bytes) -> Iterator[bytes]:
        part, left = came[head.begin :], head.body_bytes
        while len(part) < left:
            yield part
            left -= len(part)
            part = self._read()
            if not part:
                msg = f"the server closed the connection {left} bytes before the end of its answer"
                raise httpcore2.RemoteProtocolError(msg)
        self._is_read = len(part) == left
        yield part[:left]

    # Everything that is not plain.

    def _answer(self, request: WireRequest, came: bytes) -> WireAnswer:
        self._talk = self._talk or _judged(request)[0]
        self._receive(came)
        event = self._event()
        while isinstance(event, h11.InformationalResponse):
            event = self._event()
        if not isinstance(event, h11.Response):
            msg = "no answer where one was due"
            raise httpcore2.RemoteProtocolError(msg)
        return WireAnswer(event.status_code, event.headers.raw_items(), self._parts())

    def _parts(self) -> Iterator[bytes]:
        while isinstance(event := self._event(), h11.Data):
            yield bytes(event.data)

    def _event(self) -> object:
        """What comes next; no event where nothing more may come."""
        assert self._talk is not None
        while True:
            try:
                event = self._talk.next_event()
            except h11.RemoteProtocolError as problem:
                raise httpcore2.RemoteProtocolError(str(problem)) from problem
            if event is not h11.NEED_DATA:
                return event
            self._receive(self._read())

    def _receive(self, came: bytes) -> None:
        assert self._talk is not None
        if not came and self._talk.their_state is h11.SEND_RESPONSE:
            msg = "Server disconnected without sending a response."
            raise httpcore2.RemoteProtocolError(msg)
        try:
            self._talk.receive_data(came)
        except h11.RemoteProtocolError as problem:
            raise httpcore2.RemoteProtocolError(str(problem)) from problem

    # The socket.

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        try:
            while left:
                left = left[self._socket.send(left) :]
        except TimeoutError as problem:
            raise httpcore2.WriteTimeout(str(problem)) from problem
        except OSError as problem:
            raise httpcore2.WriteError(str(problem)) from problem

    def _read(self) -> bytes:
        try:
            return self._socket.recv(_READ_BYTES)
        except TimeoutError as problem:
            raise httpcore2.ReadTimeout(str(problem)) from problem
        except OSError as problem:
            raise httpcore2.ReadError(str(problem)) from problem

    def has_rested(self) -> bool:
        """Whether the answer was read to its end and another request may follow; the time that it rests begins."""
        self._idle_since = time.monotonic()
        talk = self._talk
        if talk is None:
            return self._is_read
        return talk.our_state is h11.DONE and talk.their_state is h11.DONE and not talk.trailing_data[0]

    def is_stale(self) -> bool:
        """Whether it has rested for too long."""
        return time.monotonic() - self._idle_since > _KEPT_SECONDS

    def is_left(self) -> bool:
        """Whether the server has closed it meanwhile, or says what it was not asked for."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _judged(request: WireRequest) -> tuple[h11.Connection, tuple[bytes, ...]]:
    """A request as h11 writes it, and what then judges the answer to it."""
    talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
    try:
        head = talk.send(h11.Request(method=request.method, target=request.target, headers=request.headers))
        body = talk.send(h11.Data(request.content)) if request.content else None
        talk.send(h11.EndOfMessage())
    except h11.LocalProtocolError as problem:
        raise httpcore2.LocalProtocolError(str(problem)) from problem
    return talk, tuple(piece for piece in (head, body) if piece)
