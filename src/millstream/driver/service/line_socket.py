"""The socket on which a driver listens for its node: lines in, reports out. One node at a time, the newest."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from millstream.contract.driver_protocol import (
    FENCED,
    LINE_BYTES,
    BadLine,
    Bye,
    NodeHello,
    NodeLine,
    ReportType,
    RunSpec,
    decode_node_line,
)
from millstream.contract.run_folder import DriverFolder
from millstream.driver.service.reports import Reports
from millstream.errors import Fenced

_SEND_SECONDS = 10.0
"""A node that takes nothing for so long is given up; it connects again."""
_LOOK_SECONDS = 0.5
_HELLO_SECONDS = 10.0
_log = logging.getLogger(__name__)


class LineSocket:
    """Listens in a thread of its own; every line is handed to `take` in the thread of its connection."""

    def __init__(
        self,
        folder: DriverFolder,
        spec: RunSpec,
        reports: Reports,
        *,
        hello: Callable[[], dict[str, object]],
        take: Callable[[NodeLine], None],
    ) -> None:
        self._spec, self._reports, self._hello, self._take = spec, reports, hello, take
        self._lock = threading.Lock()
        self._node: _NodeConnection | None = None
        self._is_closed = threading.Event()
        self._listening = _listening(folder)
        threading.Thread(target=self._accept, name="millstream-socket", daemon=True).start()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                connected, _ = self._listening.accept()
            except OSError as problem:
                # It was closed; or there are too many open files for now, and the node comes again.
                if not self._is_closed.wait(_LOOK_SECONDS):
                    _log.warning("a node could not be listened to: %s", problem)
                continue
            threading.Thread(target=self._serve, args=(connected,), name="millstream-node", daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        _limit(connected, socket.SO_RCVTIMEO, _HELLO_SECONDS)
        _limit(connected, socket.SO_SNDTIMEO, _SEND_SECONDS)
        with contextlib.suppress(OSError), connected:
            try:
                self._listen_to(connected)
            except (Fenced, BadLine) as problem:
                _log.warning("a line of a node was refused: %s", problem)
                kind: ReportType = FENCED if isinstance(problem, Fenced) else "refused"
                connected.sendall(self._reports.line(kind, dict(problem.fields())))

    def _listen_to(self, connected: socket.socket) -> None:
        connection: _NodeConnection | None = None
        try:
            for content in _lines(connected):
                line = decode_node_line(content, run=self._spec.run, token=self._spec.token)
                if isinstance(line, Bye):
                    return
                if connection is None:
                    connection = self._greeted(connected, line)
                else:
                    self._take(line)
        finally:
            if connection is not None:
                connection.close()

    def _greeted(self, connected: socket.socket, line: NodeLine) -> _NodeConnection:
        """The node that said hello last is the one: an earlier connection of it may be dead without knowing."""
        if not isinstance(line, NodeHello):
            msg = "a node begins with hello"
            raise BadLine(msg, code="CTL-105", found=type(line).__name__, hint="say hello first")
        _limit(connected, socket.SO_RCVTIMEO, 0)
        connection = _NodeConnection(
            connected, self._reports, line.from_seq, self._reports.line("hello", self._hello())
        )
        with self._lock:
            before, self._node = self._node, connection
        if before is not None:
            before.close()
        connection.start()
        return connection

    def flush(self, seconds: float) -> None:
        """Give the connected node time to take what there is."""
        with self._lock:
            node = self._node
        if node is not None:
            node.flush(seconds)

    def close(self) -> None:
        """Listen no more."""
        self._is_closed.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class _NodeConnection:
    """Sends reports to one node, from a thread: a node that reads slowly keeps nobody waiting."""

    def __init__(self, connected: socket.socket, reports: Reports, seq: int, hello: bytes) -> None:
        self._socket, self._reports, self._seq, self._hello = connected, reports, seq, hello
        self._is_closed = False
        self._flushed = threading.Condition()

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._send, name="millstream-reports", daemon=True).start()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(self._hello)
            waiting = self._reports.missed(self._seq)
            while not self._is_closed:
                for each in waiting:
                    self._socket.sendall(each.line)
                    self._seq = each.seq
                with self._flushed:
                    self._flushed.notify_all()
                waiting = self._reports.since(self._seq, wait=_LOOK_SECONDS)
        self.close()

    def flush(self, seconds: float) -> None:
        """Wait until everything is sent, but not for long."""
        with self._flushed:
            self._flushed.wait_for(lambda: self._is_closed or self._seq >= self._reports.seq, timeout=seconds)

    def close(self) -> None:
        """Send no more; the other side sees the end."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _listening(folder: DriverFolder) -> socket.socket:
    """A socket that only this user can connect to."""
    folder.socket.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        with folder.socket_address() as address:
            listening.bind(address)
    finally:
        os.umask(before)
    listening.listen(8)
    return listening


def _limit(connected: socket.socket, direction: int, seconds: float) -> None:
    """How long a call may wait in one direction; 0 for ever. Python's own limit would be one for both."""
    connected.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", int(seconds), int(seconds % 1 * 1e6)))


def _lines(connected: socket.socket) -> Iterator[bytes]:
    """Lines as they come; one that is too long is handed on, to be refused."""
    rest = b""
    while content := connected.recv(1 << 16):
        *lines, rest = (rest + content).split(b"\n")
        yield from lines
        if len(rest) > LINE_BYTES:
            yield rest
            rest = b""
