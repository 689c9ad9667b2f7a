"""Who a process is, so that another on the same machine can tell whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

_ENDED = "ZX"
"""States of a process that runs no more."""


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A process, unmistakable over restarts of machine and process."""

    host: str
    boot: str = ""
    namespace: str = ""
    """Process ids mean something only inside their namespace: two containers of one host have two."""
    pid: int
    started: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended; `False` when that cannot be known from here."""
        return self.is_here and _started(self.pid) != self.started

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process that this one can see."""
        here = this_process()
        return bool(self.started) and (self.boot, self.namespace) == (here.boot, here.namespace)


def this_process() -> ProcessIdentity:
    """The running process."""
    return process_of(os.getpid())


def process_of(pid: int) -> ProcessIdentity:
    """A process of this machine, as it is now; one that has ended has no start."""
    return ProcessIdentity(
        host=socket.gethostname(),
        boot=_text(Path("/proc/sys/kernel/random/boot_id")),
        namespace=_link(Path("/proc/self/ns/pid")),
        pid=pid,
        started=_started(pid),
    )


def _started(pid: int) -> str:
    """When a process started, in the kernel's own count; empty when there is none or it has ended."""
    # The name in parentheses may hold spaces; what follows it is fixed: state first, start time as 20th.
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in _ENDED else ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
