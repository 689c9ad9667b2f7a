"""What a run told last, kept in memory for those who look at it now."""

from __future__ import annotations

import collections
import threading
from typing import Any

from millstream.contract.driver_protocol import DriverReport

_KEPT_EPOCHS = 1000
_TOLD_EPOCHS = 100
"""At most, in one answer: shorter epochs say the same of a shorter time."""


class LiveView:
    """What a run last told, for those who look at it now; nothing of it is needed to go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, dict[str, Any]] = {}
        self._epochs: collections.deque[dict[str, Any]] = collections.deque(maxlen=_KEPT_EPOCHS)

    def note(self, report: DriverReport) -> None:
        """Keep the newest of each kind, and a stretch of epochs."""
        with self._lock:
            self._newest[report.type] = report.body | {"at": report.at}
            if report.type == "epoch":
                self._epochs.append(report.body | {"at": report.at})

    def newest(self, kind: str) -> dict[str, Any] | None:
        """The newest report of a kind."""
        with self._lock:
            return self._newest.get(kind)

    def epochs(self, limit: int) -> list[dict[str, Any]]:
        """The newest epochs, oldest first."""
        with self._lock:
            return list(self._epochs)[-limit:]

    def epochs_behind(self, number: int) -> list[dict[str, Any]]:
        """The epochs that followed one, oldest first; none that are long past."""
        with self._lock:
            return [each for each in self._epochs if each["epoch"] > number][-_TOLD_EPOCHS:]

    def window(self, since: float) -> list[dict[str, Any]]:
        """The epochs that were published since an instant, oldest first; the newest one in any case."""
        with self._lock:
            newest = list(self._epochs)[-_TOLD_EPOCHS:]
        return [each for each in newest if each["at"] > since] or newest[-1:]
