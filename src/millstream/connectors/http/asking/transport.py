"""Connections of the http client: to addresses that were looked at, and all of them ended at once when the source closes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable
from typing import Any

from millstream.connectors.http.asking.addresses import AllowedHosts, check_reachable
from millstream.connectors.http.asking.library import httpcore2

CONNECTION_PROBLEMS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


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


class _WatchedStream(httpcore2.NetworkStream):
    """A stream whose socket is known, also once TLS has replaced it by another."""

    def __init__(self, inner: httpcore2.NetworkStream, sockets: OpenSockets) -> None:
        self._inner, self._sockets = inner, sockets
        sockets.add(inner.get_extra_info("socket"))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _WatchedStream(self._inner.start_tls(ssl_context, server_hostname, timeout), self._sockets)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _CheckedBackend(httpcore2.NetworkBackend):
    """Looks a host up once, looks at all that it leads to, and connects to these addresses and no others."""

    def __init__(self, allowed: AllowedHosts, sockets: OpenSockets) -> None:
        self._allowed, self._sockets = allowed, sockets
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address that answers."""
        addresses = _looked_up(host, port)
        check_reachable(host, addresses, self._allowed)
        problem: Exception = httpcore2.ConnectError(host)
        for address in addresses:
            try:
                stream = self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as refused:
                problem = refused
            else:
                return _WatchedStream(stream, self._sockets)
        raise problem


def _looked_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        msg = f"no address is known for {host!r}"
        raise httpcore2.ConnectError(msg) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def checked_pool(allowed: AllowedHosts, sockets: OpenSockets, context: ssl.SSLContext) -> httpcore2.ConnectionPool:
    """A pool of connections to allowed addresses."""
    return httpcore2.ConnectionPool(
        ssl_context=context,
        max_connections=None,
        max_keepalive_connections=16,
        keepalive_expiry=30.0,
        network_backend=_CheckedBackend(allowed, sockets),
    )
