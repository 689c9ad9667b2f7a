"""Driver processes that are started before anybody needs them: how many, of which kind, and who gets one."""

from __future__ import annotations

import collections
import dataclasses
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.contract.driver_protocol import Beginning, DriverIdentity, Engine, RunSpec
from millstream.contract.run_folder import DriverFolder
from millstream.contract.warm_start import PING_SECONDS, WarmWish, differences, why_never, wish_of
from millstream.control.drivers.launch import prepared
from millstream.control.drivers.warm_process import WarmProcess, environment_digest

_BUSY_SECONDS = 60.0
"""A start that takes longer is not waited for any more."""
_REMEMBERED = 20
_AFTER_FAILURE_SECONDS = 60.0
_log = logging.getLogger(__name__)


class WarmLimits(NamedTuple):
    """How many processes wait for a run, by engine; 0 for none."""

    local: int = 0
    spark: int = 0
    master: str | None = None
    """Where runs on Spark are expected: one waits for them from the beginning. Otherwise the first run says what is wanted."""

    def of(self, engine: Engine) -> int:
        """How many of an engine."""
        return self.local if engine == "local" else self.spark


def wanted(asked: Iterable[WarmWish], most: int) -> list[WarmWish]:
    """Which processes should wait: one for each of the newest wishes, the newest more often if there is room."""
    kinds: list[WarmWish] = []
    for wish in asked:
        if wish not in kinds and len(kinds) < most:
            kinds.append(wish)
    return kinds + kinds[:1] * (most - len(kinds)) if kinds else []


@dataclasses.dataclass(frozen=True, slots=True)
class TendingPlan:
    """What is to be done now so that the right ones wait."""

    start: WarmWish | None
    end: list[WarmProcess]


def tending(have: list[WarmProcess], want: list[WarmWish], *, is_busy: bool) -> TendingPlan:
    """Decide: those that nobody wants end, and what is missing is started, one at a time and not beside the start of a run."""
    left, unwanted = list(want), []
    for process in have:
        if process.wish in left:
            left.remove(process.wish)
        else:
            unwanted.append(process)
    is_starting = any(not process.is_ready for process in have)
    return TendingPlan(None if is_busy or is_starting or not left else left[0], unwanted)


class WarmPool:
    """The waiting processes of one node. `tend` is one pass of its loop."""

    def __init__(self, root: Path, limits: WarmLimits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root, self._limits, self._monotonic = root, limits, monotonic
        self._lock = threading.RLock()
        self._processes: list[WarmProcess] = []
        self._asked: dict[Engine, collections.deque[WarmWish]] = {}
        self._begun: dict[str, float] = {}
        """Runs that are starting, and since when."""
        self._pinged = float("-inf")
        self._failed = float("-inf")
        self._is_closed = False
        # Those of an earlier process of this node have ended with it.
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(mode=0o700, parents=True)
        expected = RunSpec(run="", token=0, job="", definition={}, checkpoint="", engine="local")
        self._expect(expected)
        if limits.master is not None:
            self._expect(msgspec.structs.replace(expected, engine="spark", master=limits.master))

    def _expect(self, spec: RunSpec) -> WarmWish:
        """Another run like this one may come."""
        wish = wish_of(spec, environment_digest())
        asked = self._asked.setdefault(spec.engine, collections.deque(maxlen=_REMEMBERED))
        if wish in asked:
            asked.remove(wish)
        asked.appendleft(wish)
        return wish

    def tend(self) -> None:
        """Look at every process, say that the node is there, and start or end one."""
        with self._lock:
            if self._is_closed:
                return
            self._look()
            is_busy = self._is_busy() or self._monotonic() - self._failed < _AFTER_FAILURE_SECONDS
            want = [wish for engine, asked in self._asked.items() for wish in wanted(asked, self._limits.of(engine))]
            plan = tending(self._processes, want, is_busy=is_busy)
            for process in plan.end:
                self._processes.remove(process)
                process.end()
            if plan.start is not None:
                self._processes.append(WarmProcess(self._root / uuid.uuid4().hex[:12], plan.start))

    def _look(self) -> None:
        is_due = self._monotonic() - self._pinged >= PING_SECONDS
        self._pinged = self._monotonic() if is_due else self._pinged
        for process in list(self._processes):
            process.look()
            if process.is_gone:
                # One that cannot get ready will not be able to a moment later either.
                self._failed = self._failed if process.is_ready else self._monotonic()
                _log.warning("a warm driver is gone: %s", process.problem or "it ended without a word")
                self._processes.remove(process)
                process.end()
            elif is_due:
                process.ping()

    def _is_busy(self) -> bool:
        now = self._monotonic()
        self._begun = {run: since for run, since in self._begun.items() if now - since < _BUSY_SECONDS}
        return bool(self._begun)

    def has_started(self, run: str) -> bool:
        """A run has got so far that its start needs this machine no longer; whether that is new."""
        with self._lock:
            return self._begun.pop(run, None) is not None

    def taken(self, folder: DriverFolder, spec: RunSpec) -> tuple[DriverIdentity | None, str]:
        """Give a run to a process that waits: the process, or why there is none."""
        with self._lock:
            self._begun[spec.run] = self._monotonic()
            if self._limits.of(spec.engine) == 0:
                return None, "no drivers are kept warm for its engine"
            never = why_never(spec)
            if never is not None:
                return None, never
            wish = self._expect(spec)
            fitting = next((each for each in self._processes if each.wish == wish and each.is_ready), None)
            if fitting is None:
                return None, self._why_none(wish)
            self._processes.remove(fitting)
            return self._handed_over(fitting, folder, spec)

    def _handed_over(
        self, process: WarmProcess, folder: DriverFolder, spec: RunSpec
    ) -> tuple[DriverIdentity | None, str]:
        beginning = Beginning(is_warm=True, why="it asks for what the process was started with")
        prepared(folder, msgspec.structs.replace(spec, beginning=beginning))
        identity = process.take(folder, spec.token)
        return identity, "" if identity is not None else f"a warm driver did not take it: {process.problem}"

    def _why_none(self, wish: WarmWish) -> str:
        same_engine = [each for each in self._processes if each.wish.engine == wish.engine]
        if any(each.wish == wish for each in same_engine):
            return "the warm driver for it is still getting ready"
        if not same_engine:
            return "no warm driver is there yet"
        differing = sorted({name for each in same_engine for name in differences(wish, each.wish)})
        return f"warm drivers have other settings: {', '.join(differing)}"

    def close(self) -> None:
        """End all that wait."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                process.end()
            self._processes.clear()
