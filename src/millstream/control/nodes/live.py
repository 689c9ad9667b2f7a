"""What a run told last, kept in memory for those who look at it now."""

from __future__ import annotations

import collections
import threading
from typing import Any

from millstream.contract.driver_protocol import DriverReport

_KEPT_EPOCHS = 1000
_KEPT_SUBTASKS = 20


class LiveView:
    """What a run last told, for those who look at it now; nothing of it is needed to go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, dict[str, Any]] = {}
        self._epochs: collections.deque[dict[str, Any]] = collections.deque(maxlen=_KEPT_EPOCHS)
        self._subtasks: collections.deque[dict[str, Any]] = collections.deque(maxlen=_KEPT_SUBTASKS)

    def note(self, report: DriverReport) -> None:
        """Keep the newest of each kind, and a stretch of epochs."""
        with self._lock:
            self._newest[report.type] = report.body | {"at": report.at}
            if report.type == "epoch":
                self._epochs.append(report.body)
            elif report.type == "subtasks":
                self._subtasks.append(report.body)

    def newest(self, kind: str) -> dict[str, Any] | None:
        """The newest report of a kind."""
        with self._lock:
            return self._newest.get(kind)

    def epochs(self, limit: int) -> list[dict[str, Any]]:
        """The newest epochs, oldest first."""
        with self._lock:
            return list(self._epochs)[-limit:]

    def subtasks(self) -> list[dict[str, Any]]:
        """What subtasks did in the last epochs, oldest first."""
        with self._lock:
            return list(self._subtasks)
