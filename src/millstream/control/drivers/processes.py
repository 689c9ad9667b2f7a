"""Whether a driver process lives, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from millstream.checkpoint.owner import ProcessIdentity, process_of, this_process
from millstream.contract.driver_protocol import DriverIdentity

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Those that this process started: they stay in the kernel's table until somebody asks how they ended."""


def adopt_child(process: subprocess.Popen[bytes]) -> None:
    """Take note of a process that was started here."""
    _children[process.pid] = process


def is_alive(identity: DriverIdentity) -> bool:
    """Whether a driver process runs; another one with its process id is not taken for it."""
    process = _process(identity)
    is_gone = process.is_gone
    # Asked for afterwards: one that ends meanwhile would stay in the table, and nobody would look again.
    child = _children.get(identity.pid)
    if child is not None and child.poll() is not None:
        del _children[identity.pid]
        return False
    # A process of an earlier start of the machine has ended with it.
    return process.boot == this_process().boot and not is_gone


def is_elsewhere(identity: DriverIdentity) -> bool:
    """Whether it is a process of this machine that cannot be seen from here: process ids of another container mean nothing."""
    return _process(identity).boot == this_process().boot and not _process(identity).is_here


def found_in(folder: Path, module: str, token: int) -> DriverIdentity | None:
    """The process that was started for a folder and has not said so yet: whoever started it may have ended in that moment."""
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if module.encode() in words and str(folder).encode() in words:
                    me = process_of(int(place.name))
                    return DriverIdentity(
                        pid=me.pid, started=me.started, boot=me.boot, namespace=me.namespace, host=me.host, token=token
                    )
    return None


def kill(identity: DriverIdentity) -> None:
    """End a driver process and everything it started, at once. What it had not made durable is done again by the next one."""
    if not _process(identity).is_here:
        return
    if not is_alive(identity) and Path(f"/proc/{identity.pid}").exists():
        return  # the process id is another's by now
    for pid in _session(identity.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def dump_stacks(identity: DriverIdentity) -> None:
    """Let a driver write into `crash.log` what its threads do, also when it answers nobody any more."""
    if is_alive(identity):
        with contextlib.suppress(OSError):
            os.kill(identity.pid, signal.SIGUSR1)


def _session(leader: int) -> list[int]:
    """The processes of a session, its leader last: who sees it end finds nothing of it left."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if os.getsid(int(folder.name)) == leader:
                    found.append(int(folder.name))
    return sorted(found, key=lambda pid: pid == leader)


def _process(identity: DriverIdentity) -> ProcessIdentity:
    return ProcessIdentity(
        host=identity.host,
        boot=identity.boot,
        namespace=identity.namespace,
        pid=identity.pid,
        started=identity.started,
    )
