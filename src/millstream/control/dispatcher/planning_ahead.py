"""A compiling process that is started before anybody submits a job: it has imported everything when one comes."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from millstream.contract.reach import Reach
from millstream.control.dispatcher.planned import Planned
from millstream.control.dispatcher.planning import NOTHING_SAID, compiler, planned_apart, told_by
from millstream.control.drivers.warm_process import environment_digest
from millstream.control.nodes.loop import Loop

_QUIET_SECONDS = 3.0
_LOOK_SECONDS = 1.0


class PlannerAhead:
    """Compiles definitions, each in a process of its own; the next one waits already."""

    def __init__(self, reach: Reach = NOTHING_SAID, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`reach` is what jobs that are data may reach, while they are compiled and in their runs."""
        self._reach, self._monotonic, self._used = reach, monotonic, float("-inf")
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[str] | None = None
        self._environment = ""
        self._is_closed = False
        self._loop = Loop("planner", self.tend, pause=_LOOK_SECONDS)

    def start(self) -> None:
        """From now on one waits."""
        self._loop.start()

    def __call__(self, definition: dict[str, Any], *, code: str | None, parallelism: int | None) -> Planned:
        """The plan of a definition, as `planned_apart` gives it."""
        child = self._taken()
        if child is None:
            return planned_apart(definition, code=code, parallelism=parallelism, reach=self._reach)
        return told_by(child, definition, code=code, parallelism=parallelism, reach=self._reach)

    def _taken(self) -> subprocess.Popen[str] | None:
        """The process that waits, if it lives and would be started like that now."""
        with self._lock:
            child, self._waiting = self._waiting, None
            self._used = self._monotonic()
        if child is None or (child.poll() is None and self._environment == environment_digest()):
            return child
        _end(child)
        return None

    def tend(self) -> None:
        """Start the next one, but not beside the start of a run that may have been submitted just now."""
        with self._lock:
            is_quiet = self._monotonic() - self._used >= _QUIET_SECONDS
            if self._waiting is None and is_quiet and not self._is_closed:
                self._waiting, self._environment = compiler("--ahead"), environment_digest()

    def close(self) -> None:
        """End the one that waits."""
        with self._lock:
            self._is_closed = True
            child, self._waiting = self._waiting, None
        self._loop.stop()
        if child is not None:
            _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    with contextlib.suppress(OSError), child:
        pass
