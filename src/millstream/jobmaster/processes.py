"""What the processes of a run take of this machine: the driver, its JVM and the workers, against what they may."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from millstream.api.running.result import ProcessLoad

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_EVERY = 5.0
"""Seconds between two looks: they cost milliseconds where there are many processes."""


class ProcessFacts(NamedTuple):
    """One process, as the kernel tells."""

    pid: int
    parent: int
    name: str
    seconds: float
    """Of processors, by its own threads: children that ended would count all at once."""
    held: int
    """Bytes in memory; what processes share counts for each."""


class ProcessWatch:
    """Looks at this process and those below it now and then. Without `/proc` it knows nothing."""

    def __init__(
        self, proc: Path = _PROC, cgroup: Path = _CGROUP, *, every: float = _EVERY, limit: int | None = None
    ) -> None:
        """`limit` in bytes of all processes together, where the run has one of its own."""
        self._proc, self._every = proc, every
        self._processors = processor_limit(cgroup)
        self._memory = min(limit or memory_limit(proc, cgroup), memory_limit(proc, cgroup))
        self._looked, self._spent = time.monotonic(), _spent(_mine(read_processes(proc)))
        self._found: Mapping[str, ProcessLoad] = {}

    def loads(self) -> Mapping[str, ProcessLoad]:
        """By `driver`, `jvm` and `workers`: the newest look, or another one if that was long ago."""
        now = time.monotonic()
        if self._found and now - self._looked < self._every:
            return self._found
        mine = _mine(read_processes(self._proc))
        spent, since = _spent(mine), max(now - self._looked, 1e-3) * self._processors
        self._found = {
            kind: ProcessLoad(
                cpu=max(0.0, spent[kind] - self._spent.get(kind, 0.0)) / since,
                memory=sum(each.held for each in several) / self._memory,
            )
            for kind, several in mine.items()
        }
        self._looked, self._spent = now, spent
        return self._found


def read_processes(proc: Path) -> list[ProcessFacts]:
    """All processes that can be seen."""
    found = []
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            before, _, after = (folder / "stat").read_text().rpartition(")")
            # What follows the name in parentheses is fixed: parent as 2nd, ticks as 12th and 13th, pages as 22nd.
            fields = after.split()
            seconds = sum(int(each) for each in fields[11:13]) / ticks
            name = before.partition("(")[2]
            found.append(ProcessFacts(int(folder.name), int(fields[1]), name, seconds, int(fields[21]) * page))
    return found


def _mine(processes: Iterable[ProcessFacts]) -> dict[str, list[ProcessFacts]]:
    """This process and those below it, by what they are for."""
    below: dict[int, list[ProcessFacts]] = {}
    found: dict[str, list[ProcessFacts]] = {}
    for each in processes:
        below.setdefault(each.parent, []).append(each)
        if each.pid == os.getpid():
            found["driver"] = [each]
    waiting = list(below.get(os.getpid(), []))
    while waiting:
        each = waiting.pop()
        found.setdefault("jvm" if each.name == "java" else "workers", []).append(each)
        waiting += below.get(each.pid, [])
    return found


def _spent(processes: Mapping[str, list[ProcessFacts]]) -> dict[str, float]:
    return {kind: sum(each.seconds for each in several) for kind, several in processes.items()}


def processor_limit(cgroup: Path) -> float:
    """Processors that this process may use at once."""
    own = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with contextlib.suppress(OSError, ValueError):
        share, period = (cgroup / "cpu.max").read_text().split()
        return min(own, int(share) / int(period))
    return own


def memory_limit(proc: Path, cgroup: Path) -> int:
    """Bytes that this process may hold: of its control group, or of the machine."""
    found = [2**63]
    with contextlib.suppress(OSError, ValueError):
        found.append(int((cgroup / "memory.max").read_text()))
    with contextlib.suppress(OSError, ValueError, IndexError):
        found.append(1024 * int((proc / "meminfo").read_text().split()[1]))
    return min(found)
