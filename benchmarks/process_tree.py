"""Memory and CPU of a process with everything below it, looked at while it runs."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 0.1
_KINDS = ("driver", "jvm", "workers")


class _Process(NamedTuple):
    pid: int
    parent: int
    name: str
    resident: int
    cpu: float
    """Seconds of the process itself and of children that ended."""
    own_cpu: float
    """Seconds of the process itself."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Watch:
    """What was seen of a tree, look by look."""

    peaks: dict[str, int] = dataclasses.field(default_factory=dict)
    """Highest resident bytes of the driver's Python, the JVM, all other processes, the largest of those, and the sum."""
    times: list[float] = dataclasses.field(default_factory=list)
    """When it was looked, on the wall clock."""
    cpu: list[float] = dataclasses.field(default_factory=list)
    """CPU seconds of all processes until then."""
    cpu_of: dict[str, list[float]] = dataclasses.field(default_factory=lambda: {kind: [] for kind in _KINDS})
    """The same apart: the driver's Python, the JVM, all other processes."""
    resident: list[int] = dataclasses.field(default_factory=list)
    """Resident bytes of all processes then."""

    def note(self, root: int) -> None:
        """Look once."""
        now = dict.fromkeys(_KINDS, 0)
        processes = _tree(root)
        used = dict.fromkeys(_KINDS, 0.0)
        largest = 0
        for process in processes:
            kind = "driver" if process.pid == root else "jvm" if process.name == "java" else "workers"
            now[kind] += process.resident
            largest = max(largest, process.resident if kind == "workers" else 0)
            used[kind] += process.cpu
        now |= {"total": sum(now.values()), "worker": largest}
        self.peaks = {kind: max(self.peaks.get(kind, 0), size) for kind, size in now.items()}
        self.times.append(time.time())
        self.cpu.append(sum(used.values()))
        for kind, seconds in used.items():
            self.cpu_of[kind].append(seconds)
        self.resident.append(now["total"])

    def cpu_at(self, instant: float) -> float:
        """CPU seconds used until then; between two looks, in proportion."""
        return self._at(self.cpu, instant)

    def cpu_of_at(self, kind: str, instant: float) -> float:
        """The same of one kind of process."""
        return self._at(self.cpu_of[kind], instant)

    def _at(self, series: list[float], instant: float) -> float:
        after = bisect.bisect_left(self.times, instant)
        if after == 0 or after == len(self.times):
            return series[min(after, len(self.times) - 1)]
        share = (instant - self.times[after - 1]) / (self.times[after] - self.times[after - 1])
        return series[after - 1] + share * (series[after] - series[after - 1])

    def peak_until(self, instant: float) -> int:
        """Highest resident bytes of all processes together until then."""
        return max((size for at, size in zip(self.times, self.resident, strict=True) if at <= instant), default=0)


class CpuTally:
    """CPU seconds of a process and everything below it, of processes that nobody waited for as well."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._used: dict[int, float] = {}

    def note(self) -> None:
        """Look once; what a process used after the last look at it is not counted."""
        self._used |= {process.pid: process.own_cpu for process in _tree(self._root)}

    @property
    def seconds(self) -> float:
        """All together."""
        return sum(self._used.values())


def watched(process: subprocess.Popen[bytes], *, also: Callable[[], None] | None = None) -> Watch:
    """Look at a process until it ends; `also` is called at every look."""
    watch = Watch()
    while process.poll() is None:
        watch.note(process.pid)
        if also is not None:
            also()
        time.sleep(_EVERY)
    return watch


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not ended, with everything below it."""
    if process.poll() is None:
        for each in _tree(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        process.wait()


def _tree(root: int) -> list[_Process]:
    """All processes below a process, and itself."""
    found = [process for entry in Path("/proc").iterdir() if entry.name.isdigit() for process in _process(entry)]
    below = {root}
    while more := {process.pid for process in found if process.parent in below} - below:
        below |= more
    return [process for process in found if process.pid in below]


def _process(entry: Path) -> list[_Process]:
    try:
        head, _, tail = (entry / "stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return []  # it ended since it was listed
    fields = tail.split()
    cpu, own_cpu = (sum(map(int, fields[11:last])) / _TICKS for last in (15, 13))
    return [_Process(int(entry.name), int(fields[1]), head.partition("(")[2], int(fields[21]) * _PAGE, cpu, own_cpu)]
