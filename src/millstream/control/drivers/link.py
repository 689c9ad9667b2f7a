"""The node's line to a driver process: it connects, connects again, asks, and hands on what the driver reports."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from millstream.contract.driver_protocol import (
    FENCED,
    LINE_BYTES,
    BadLine,
    Bye,
    DriverIdentity,
    DriverReport,
    DumpRequest,
    LogLevelWish,
    NodeHello,
    NodeLine,
    Ping,
    Renewed,
    RunRequest,
    RunSpec,
    SecretValues,
    decode_report,
    encode_line,
)
from millstream.contract.run_folder import BadRunFolder, DriverFolder
from millstream.control.drivers.last_words import last_words
from millstream.control.drivers.processes import is_alive

_AGAIN_SECONDS = 0.05
_REFUSED_SECONDS = 0.5
"""Before a report that could not be taken is asked for again: what is away may be back then."""
_log = logging.getLogger(__name__)
OnReport = Callable[[DriverReport], None]


class DriverLink:
    """Speaks with one driver process as long as it lives.

    Reports come in order, each once, in a thread of the link. What was asked and not answered is asked again after every
    interruption; the driver knows requests by their ids. A report whose taker fails comes again until it does not. When the
    process is gone, its journal and its `result.json` take the place of reports that did not come, and `is_over` is true:
    without any result, the process was killed or crashed.
    """

    def __init__(
        self,
        folder: DriverFolder,
        spec: RunSpec,
        identity: DriverIdentity,
        on_report: OnReport,
        *,
        from_seq: int = 0,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._spec, self._identity, self._on_report = folder, spec, identity, on_report
        self._secrets = dict(secrets or {})
        self._unanswered: dict[str, RunRequest] = {}
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._promise: Renewed | None = None
        self._is_closed = False
        self.last_seq = from_seq
        """The number of the newest report."""
        self.last_heard = time.monotonic()
        """When the last line came, by the monotonic clock."""
        self.is_over = False
        """Whether nothing more will come: the process is gone, the run is another's, or the link was closed."""
        self.has_result = False
        self.was_fenced = False
        self._thread = threading.Thread(target=self._keep, name=f"millstream-link-{identity.pid}", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether the driver can be spoken to now."""
        return self._socket is not None

    # Down.

    def secrets(self, values: Mapping[str, str]) -> None:
        """Hand the values of the run's secrets over, now or as soon as the driver listens."""
        with self._lock:
            # Texts that hide themselves when they are printed are plain ones on the way.
            self._secrets = {name: str(value) for name, value in values.items()}
            self._send(SecretValues(run=self._spec.run, token=self._spec.token, values=self._secrets))

    def renewed(self, left_ms: int, sent: float) -> bool:
        """Say that the run was this node's at `sent`, by `CLOCK_BOOTTIME`; whether it could be said.

        A node that stood still between its renewal and this line must not promise its driver time that is over.
        """
        with self._lock:
            self._promise = Renewed(run=self._spec.run, token=self._spec.token, left_ms=left_ms, sent=sent)
            return self._send(self._promise)

    def request(self, id: str, action: str, *, to: str = "", form: str = "canonical") -> None:
        """Ask something of the run, now or as soon as the driver listens; a report of type `answer` with this id follows."""
        line = RunRequest(run=self._spec.run, token=self._spec.token, id=id, action=action, to=to, form=form)  # type: ignore[arg-type]  # checked by the driver
        with self._lock:
            self._unanswered[id] = line
            self._send(line)

    def dump(self, id: str = "dump") -> bool:
        """Ask what every thread does; the answer has it as `text` and as a file."""
        return self._send(DumpRequest(run=self._spec.run, token=self._spec.token, id=id))

    def level(self, level: str) -> bool:
        """How much is logged: `debug`, `info`, `warning` or `error`."""
        return self._send(LogLevelWish(run=self._spec.run, token=self._spec.token, level=level))  # type: ignore[arg-type]  # checked by the driver

    def ping(self) -> bool:
        """Ask for a sign of life."""
        return self._send(Ping(run=self._spec.run, token=self._spec.token))

    def close(self) -> None:
        """Leave the driver; it goes on."""
        self._is_closed = True
        self._send(Bye(run=self._spec.run, token=self._spec.token))
        self._hang_up()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _send(self, line: NodeLine) -> bool:
        with self._lock:
            if self._socket is None:
                return False
            try:
                self._socket.sendall(encode_line(line))
            except OSError:
                self._hang_up()
                return False
            return True

    def _hang_up(self) -> None:
        with self._lock:
            connected, self._socket = self._socket, None
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    # Up.

    def _keep(self) -> None:
        while not (self._is_closed or self.has_result or self.was_fenced):
            # Asked first: one that ended since then may have left a result.
            lived = is_alive(self._identity)
            try:
                self._converse()
            except OSError:
                if not lived and self._has_taken_last_words():
                    break
            time.sleep(_AGAIN_SECONDS)
        self.is_over = True

    def _converse(self) -> None:
        """One connection, from hello to its end."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            with self._folder.socket_address() as address:
                connected.connect(address)
            self._greet(connected)
            try:
                for content in _lines(connected):
                    if not self._taken(decode_report(content, run=self._spec.run)):
                        return
            except BadLine as problem:
                _log.warning("a report of run %s was refused: %s", self._spec.run, problem)
            finally:
                self._hang_up()

    def _greet(self, connected: socket.socket) -> None:
        """Everything that the driver has to know comes again with each connection."""
        run, token = self._spec.run, self._spec.token
        with self._lock:
            lines: list[NodeLine] = [NodeHello(run=run, token=token, from_seq=self.last_seq)]
            if self._promise is not None:
                lines.append(self._promise)
            if self._secrets:
                lines.append(SecretValues(run=run, token=token, values=self._secrets))
            for line in [*lines, *self._unanswered.values()]:
                connected.sendall(encode_line(line))
            self._socket = connected

    def _taken(self, report: DriverReport) -> bool:
        """Hand a report on; where that fails it counts as not come."""
        self.last_heard = time.monotonic()
        if 0 < report.seq <= self.last_seq:
            return True
        try:
            self._on_report(report)
        except Exception:
            _log.exception("report %s of run %s could not be taken, and is asked for again", report.seq, self._spec.run)
            time.sleep(_REFUSED_SECONDS)
            return False
        self.last_seq = max(self.last_seq, report.seq)
        self.was_fenced = self.was_fenced or report.type == FENCED
        self.has_result = self.has_result or report.type == "result"
        if report.type == "answer":
            with self._lock:
                self._unanswered.pop(str(report.body.get("id")), None)
        return True

    def _has_taken_last_words(self) -> bool:
        """Whether nothing is left of a process that is gone: what it told at last is taken, or it told nothing."""
        try:
            words = last_words(self._folder, self._spec.token, after=self.last_seq, is_gone=True)
        except BadRunFolder as problem:
            _log.warning("the result of run %s cannot be read: %s", self._spec.run, problem)
            return True
        return all(self._taken(each) for each in words)


def _lines(connected: socket.socket) -> Iterator[bytes]:
    """Lines as they come; one that is too long is handed on, to be refused."""
    rest = b""
    while content := connected.recv(1 << 16):
        *lines, rest = (rest + content).split(b"\n")
        yield from lines
        if len(rest) > LINE_BYTES:
            yield rest
            rest = b""
