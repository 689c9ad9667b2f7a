"""What a driver looks after while its job runs: answers, signs of life, memory, and whether anybody still wants the run."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from millstream.driver.service.memory import Pressure, pressure, session_bytes
from millstream.driver.service.process import DriverProcess
from millstream.driver.service.renewals import Standing
from millstream.errors import ExternalFailure

_LOOK_SECONDS = 0.05
_PROGRESS_SECONDS = 1.0
PUBLISHING_SECONDS = 1.0
"""A publication that is shorter changes nothing about the state of the run."""
_log = logging.getLogger(__name__)


class Watch:
    """A thread that looks again and again until the process ends."""

    def __init__(
        self, driver: DriverProcess, *, stop: Callable[[str], None], kill: Callable[[ExternalFailure], None]
    ) -> None:
        """`stop` ends the run as its job wishes, for a reason; `kill` ends the process at once."""
        self._driver, self._stop, self._kill = driver, stop, kill
        self._alive = self._progress = float("-inf")
        self._told: tuple[dict[str, Any], Standing] = ({}, Standing.HELD)
        self._changes = 0
        self._pressure = Pressure.NONE
        self.orphaned: str | None = None
        """Why nobody wants the run any more, if so."""
        self._thread = threading.Thread(target=self._look, name="millstream-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def _look(self) -> None:
        while True:
            now = time.monotonic()
            self._driver.asked.look()
            self._look_for_node()
            if self._driver.control.is_cancelled:
                self._driver.states.enter("CANCELLING", self.orphaned or "it was asked to end at once")
            self._driver.states.publishes(self._driver.control.publishing.longer_than(PUBLISHING_SECONDS))
            if now - self._progress >= _PROGRESS_SECONDS:
                self._progress = now
                self.tell_progress()
                self.tell_subtasks()
            if now - self._alive >= self._driver.spec.alive_every:
                self._alive = now
                self._driver.reports.report("alive", self._driver.signs())
                self._look_at_memory()
            time.sleep(_LOOK_SECONDS)

    def _look_for_node(self) -> None:
        if self._driver.renewals.standing is Standing.ORPHANED and self.orphaned is None:
            self.orphaned = f"the node has not renewed the run for {self._driver.spec.end_after:g} s"
            _log.warning("the run ends: %s", self.orphaned)
            self._driver.ask("cancel")

    def tell_progress(self) -> None:
        """How far the run is, if that is new."""
        standing = self._driver.renewals.standing
        now = (self._driver.epochs.progress(), standing)
        if now != self._told:
            self._told = now
            self._driver.reports.report("progress", {**now[0], "standing": standing})

    def tell_subtasks(self) -> None:
        """Which attempt of which subtask is where, in the last epochs, if that is new."""
        book = self._driver.control.subtasks
        before, self._changes = self._changes, book.changes
        if before != self._changes:
            self._driver.reports.report("subtasks", {"epochs": book.facts(), "measures": book.measures()})

    def _look_at_memory(self) -> None:
        limit = self._driver.spec.memory_limit
        if limit is None:
            return
        used = session_bytes(os.getsid(0))
        before, self._pressure = self._pressure, pressure(used, limit)
        if self._pressure is before:
            return
        text = f"the processes of the run hold {used >> 20} of {limit >> 20} MiB"
        match self._pressure:
            case Pressure.WARN:
                _log.warning("memory is short: %s", text)
            case Pressure.STOP:
                _log.error("memory is nearly out, so the run is stopped as its job wishes: %s", text)
                self._stop(text)
            case Pressure.KILL:
                msg = "the run held more memory than it may, and was killed"
                hint = "raise its memory limit, or admit fewer rows per epoch"
                self._kill(ExternalFailure(msg, code="CTL-120", found=text, hint=hint))
            case Pressure.NONE:
                return
