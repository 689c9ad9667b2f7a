"""Drivers as processes of this machine: one folder for each claim, under the data directory of the node."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.contract.driver_protocol import Beginning, DriverIdentity, DriverReport, RunSpec
from millstream.contract.run_folder import BadRunFolder, DriverFolder
from millstream.control.drivers.last_words import last_words
from millstream.control.drivers.launch import DRIVER_MODULE, launch
from millstream.control.drivers.link import DriverLink
from millstream.control.drivers.processes import dump_stacks, found_in, is_alive, is_elsewhere, kill
from millstream.control.drivers.warm_pool import WarmPool
from millstream.control.nodes.host import OnReport

_STARTED = ("epoch", "result")
_NEWS = ("state", "answer", "result")


class LocalDrivers:
    """Starts and finds driver processes."""

    def __init__(self, runs: Path, warm: WarmPool, *, on_news: Callable[[], None]) -> None:
        """`on_news` is called when a driver tells something that people wait for; epochs behind the first are not."""
        self._runs, self._warm, self._on_news = runs, warm, on_news
        self._launched: dict[Path, DriverIdentity] = {}

    def folder(self, run: str, token: int) -> DriverFolder:
        """Where the files of one claim are: attempts do not share any."""
        return DriverFolder(self._runs / f"{run}.{token}")

    def launch(self, spec: RunSpec) -> None:
        """Give a run a process: one that waits for it, or else a new one."""
        folder = self.folder(spec.run, spec.token)
        taken, why = self._warm.taken(folder, spec)
        cold = msgspec.structs.replace(spec, beginning=Beginning(why=why))
        self._launched[folder.root] = taken or launch(folder, cold)

    def link(self, run: str, token: int, *, from_seq: int, on_report: OnReport) -> DriverLink:
        """Connect to the driver of a run, and stay connected while it lives."""
        folder = self.folder(run, token)
        identity = self._identity(folder)
        assert identity is not None, "a driver that is connected to was started or found"

        def take(report: DriverReport) -> None:
            on_report(report)
            is_first = report.type in _STARTED and self._warm.has_started(run)
            if is_first or report.type in _NEWS:
                self._on_news()

        return DriverLink(folder, folder.read_spec(), identity, take, from_seq=from_seq)

    def _identity(self, folder: DriverFolder) -> DriverIdentity | None:
        with contextlib.suppress(BadRunFolder):
            known = self._launched.get(folder.root) or folder.read_identity()
            if known is None and folder.spec.exists():
                known = found_in(folder.root, DRIVER_MODULE, folder.read_spec().token)
            return known
        return None

    def is_alive(self, run: str, token: int) -> bool | None:
        """Whether its process lives; `None` while it has not said who it is."""
        folder = self.folder(run, token)
        identity = self._identity(folder)
        if identity is not None and is_elsewhere(identity):
            # A node whose container was replaced cannot see its old processes, but they would still listen.
            return _listens(folder)
        return None if identity is None else is_alive(identity)

    def last_words(self, run: str, token: int, *, after: int) -> list[DriverReport]:
        """What a driver that ended left behind: its journal behind a number, and its result, if it ended in order."""
        with contextlib.suppress(BadRunFolder, OSError):
            is_gone = self.is_alive(run, token) is False
            return last_words(self.folder(run, token), token, after=after, is_gone=is_gone)
        return []

    def stop(self, run: str, token: int) -> None:
        """Tell its process to stop, as its job wishes to be stopped."""
        identity = self._identity(self.folder(run, token))
        if identity is not None and is_alive(identity):
            with contextlib.suppress(OSError):
                os.kill(identity.pid, signal.SIGTERM)

    def dump(self, run: str, token: int) -> None:
        """Let a process that answers nobody write down what its threads do, in `crash.log`."""
        identity = self._identity(self.folder(run, token))
        if identity is not None:
            dump_stacks(identity)

    def kill(self, run: str, token: int) -> None:
        """End all of its processes now."""
        identity = self._identity(self.folder(run, token))
        if identity is not None:
            kill(identity)


def _listens(folder: DriverFolder) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, folder.socket_address() as address:
        probe.settimeout(1.0)
        try:
            probe.connect(address)
        except OSError:
            return False
        return True
