"""One driver process that was started before its run, as its node sees it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from millstream import __version__
from millstream.checkpoint.owner import process_of
from millstream.contract.driver_protocol import DriverIdentity
from millstream.contract.run_folder import DriverFolder, write_durably
from millstream.contract.warm_start import StillThere, TakeRun, WarmAnswer, WarmFolder, WarmLine, WarmWish
from millstream.control.drivers.launch import DRIVER_MODULE, clean_environment
from millstream.control.drivers.processes import adopt_child, is_alive, kill

_TAKE_SECONDS = 3.0
_GRACE_SECONDS = 2.0
_END_SECONDS = 5.0
_ANSWER = msgspec.json.Decoder(WarmAnswer)


def environment_digest(environ: Mapping[str, str] = os.environ) -> str:
    """What a driver that is started now would find around it."""
    found = [sys.executable, __version__, sorted(clean_environment(environ).items())]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


class WarmProcess:
    """A process that gets ready and waits. It has no run, no secret, and ends when this process does."""

    def __init__(self, root: Path, wish: WarmWish, python: str = sys.executable) -> None:
        self.wish, self.folder = wish, WarmFolder(root)
        for place in (root, self.folder.work):
            place.mkdir(mode=0o700)
        write_durably(self.folder.wish, msgspec.json.encode(wish))
        self._process = self._started(python)
        me = process_of(self._process.pid)
        self.identity = DriverIdentity(
            pid=me.pid, started=me.started, boot=me.boot, namespace=me.namespace, host=me.host
        )
        self.is_ready = self.is_gone = False
        self.problem = ""
        """Why it is gone, if it said so."""
        self._rest = b""

    def _started(self, python: str) -> subprocess.Popen[bytes]:
        self._socket, theirs = socket.socketpair()
        with theirs, self.folder.log.open("ab") as log:
            self.folder.log.chmod(0o600)
            process = subprocess.Popen(
                [python, "-P", "-m", DRIVER_MODULE, "--warm", str(self.folder.root), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder.work,
                env=clean_environment(os.environ),
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        adopt_child(process)
        return process

    def look(self) -> None:
        """Take what it said since the last look."""
        answer = self._answer(0)
        if answer is not None:
            self.is_ready, self.problem = answer.is_ready, answer.problem
        self.is_gone = self.is_gone or bool(self.problem) or not is_alive(self.identity)

    def ping(self) -> None:
        """Say that the node is there."""
        with contextlib.suppress(OSError):
            self._send(StillThere())

    def take(self, run: DriverFolder, token: int) -> DriverIdentity | None:
        """Give it the run of a folder; `None` when it did not take it, and then it is gone for good."""
        try:
            self._send(TakeRun(str(run.root)))
            answer = self._answer(_TAKE_SECONDS)
        except OSError:
            answer = None
        if answer is None or not answer.is_taken:
            self.problem = self.problem or ("it is gone" if answer is None else answer.problem)
            self.end(grace=0)
            return None
        self._socket.close()
        shutil.rmtree(self.folder.root, ignore_errors=True)
        return msgspec.structs.replace(self.identity, token=token)

    def end(self, *, grace: float = _GRACE_SECONDS) -> None:
        """End it with everything it started; it is gone when this returns. It ends by itself when it is left alone."""
        self.is_gone = True
        self._socket.close()
        self._await_end(grace)
        kill(self.identity)
        self._await_end(_END_SECONDS)
        shutil.rmtree(self.folder.root, ignore_errors=True)

    def _await_end(self, seconds: float) -> None:
        """Asked of the process itself: one whose threads still end looks dead before it can be taken out of the table."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _send(self, line: WarmLine) -> None:
        self._socket.settimeout(_TAKE_SECONDS)
        self._socket.sendall(msgspec.json.encode(line) + b"\n")

    def _answer(self, seconds: float) -> WarmAnswer | None:
        """The next thing it says; `None` when it says nothing in this time, or is gone."""
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            self._socket.settimeout(max(0.0, end - time.monotonic()))
            try:
                content = self._socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError:
                content = b""
            if not content:
                self.is_gone = True
                return None
            self._rest += content
        line, _, self._rest = self._rest.partition(b"\n")
        return _ANSWER.decode(line)
