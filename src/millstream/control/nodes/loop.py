"""The threads of a service process: the node's loop, and the rounds that any dispatcher makes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Loop:
    """Calls something again and again in a thread, until it is told to end; what fails is logged and tried again."""

    def __init__(self, name: str, work: Callable[[], object], *, pause: float) -> None:
        self._work, self._pause = work, pause
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"millstream-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to do now."""
        self._wanted.set()

    def stop(self, timeout: float = 10.0) -> None:
        """End after the work that is under way."""
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._work()
            except Exception:
                _log.exception("a round of %s failed; it is made again", self._thread.name)
            self._wanted.wait(self._pause)
            self._wanted.clear()
