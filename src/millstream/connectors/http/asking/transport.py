"""Connections of the http client: to addresses that were looked at, and all of them ended at once when the source closes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

from millstream.connectors.http.asking.addresses import AllowedHosts, check_reachable
from millstream.connectors.http.asking.library import httpcore2
from millstream.connectors.http.asking.wire import WireAnswer, WireConnection, WireOrigin, WireRequest

CONNECTION_PROBLEMS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
_MOST_RESTING = 16


class OpenSockets:
    """The sockets of a client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False

    def add(self, opened: socket.socket) -> None:
        """Remember a socket; behind the end it is ended at once."""
        with self._lock:
            self._open = {each for each in self._open if each.fileno() >= 0} | {opened}
            if self._is_cut:
                _shut(opened)

    def cut(self) -> None:
        """End all connections, those under way too: whoever waits for an answer gets none."""
        with self._lock:
            self._is_cut = True
            for each in self._open:
                _shut(each)


def _shut(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


class CheckedPool:
    """Connections to allowed addresses; those that rest are used again. Several threads may ask."""

    def __init__(
        self, allowed: AllowedHosts, sockets: OpenSockets, context: ssl.SSLContext, *, step_seconds: float
    ) -> None:
        self._allowed, self._sockets, self._context, self._seconds = allowed, sockets, context, step_seconds
        context.set_alpn_protocols(["http/1.1"])
        self._lock = threading.Lock()
        self.connections: set[WireConnection] = set()
        self._resting: list[WireConnection] = []
        self._is_closed = False

    @contextlib.contextmanager
    def asked(self, request: WireRequest) -> Iterator[WireAnswer]:
        """The answer to a request. A connection whose answer was not read to its end is not used again."""
        connection = self._kept(request.origin) or self._opened(request.origin)
        try:
            yield connection.asked(request)
        finally:
            self._give_back(connection)

    def _kept(self, origin: WireOrigin) -> WireConnection | None:
        """A connection that rests, the last one used first; those that rested too long, or were left, are closed."""
        with self._lock:
            stale = [each for each in self._resting if each.is_stale()]
            found = None
            for each in reversed(self._resting):
                if each.origin == origin and each not in stale:
                    if not each.is_left():
                        found = each
                        break
                    stale.append(each)
            self._resting = [each for each in self._resting if each is not found and each not in stale]
            self.connections.difference_update(stale)
        for each in stale:
            each.close()
        return found

    def _opened(self, origin: WireOrigin) -> WireConnection:
        opened = self._connected(origin)
        connection = WireConnection(origin, opened, self._seconds)
        with self._lock:
            self.connections.add(connection)
        return connection

    def _connected(self, origin: WireOrigin) -> socket.socket:
        if origin.scheme not in ("http", "https"):
            msg = f"the protocol {origin.scheme!r} is not spoken"
            raise httpcore2.UnsupportedProtocol(msg)
        stream = _checked_stream(origin, self._allowed, self._seconds)
        opened: socket.socket = stream.get_extra_info("socket")
        self._sockets.add(opened)
        if origin.scheme == "https":
            stream = stream.start_tls(self._context, server_hostname=origin.host, timeout=self._seconds)
            opened = stream.get_extra_info("socket")
            self._sockets.add(opened)
        return opened

    def _give_back(self, connection: WireConnection) -> None:
        with self._lock:
            is_kept = not self._is_closed and len(self._resting) < _MOST_RESTING and connection.has_rested()
            if is_kept:
                self._resting.append(connection)
            else:
                self.connections.discard(connection)
        if not is_kept:
            connection.close()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._is_closed = True
            opened, self.connections, self._resting = self.connections, set(), []
        for each in opened:
            each.close()


def _checked_stream(origin: WireOrigin, allowed: AllowedHosts, seconds: float) -> httpcore2.NetworkStream:
    """Look a host up once, look at all that it leads to, and connect to the first of these addresses that answers."""
    addresses = _looked_up(origin.host, origin.port)
    check_reachable(origin.host, addresses, allowed)
    problem: Exception = httpcore2.ConnectError(origin.host)
    for address in addresses:
        try:
            return httpcore2.SyncBackend().connect_tcp(address, origin.port, timeout=seconds)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as refused:
            problem = refused
    raise problem


def _looked_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        msg = f"no address is known for {host!r}"
        raise httpcore2.ConnectError(msg) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))
