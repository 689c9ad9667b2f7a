"""An event loop in a thread of its own: clients of brokers are asynchronous, and readers, planners and committers are not.

A process has one loop for each purpose, which starts when it is first wanted. A child of the process starts its own: threads do
not survive a fork.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CLOSING_SECONDS = 5.0


class LoopThread:
    """A loop of this process."""

    def __init__(self, purpose: str) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._closings: list[Callable[[], Awaitable[None]]] = []
        self._thread = threading.Thread(target=self._serve, name=f"millstream-{purpose}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """What a coroutine gives, waited for in this thread.

        Raises:
            TimeoutError: it takes longer; it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds)
        except BaseException:
            future.cancel()
            raise

    def at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have something closed when the process ends; else its tasks would complain."""
        self._closings.append(close)

    def not_at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """It is closed already."""
        with contextlib.suppress(ValueError):
            self._closings.remove(close)

    def close(self) -> None:
        """Close what is open, and end the thread."""
        if self.process != os.getpid() or self.loop.is_closed():
            return
        for close in list(self._closings):
            # The process ends, and nobody is left to be told.
            with contextlib.suppress(Exception):
                self.run(_awaited(close), _CLOSING_SECONDS)
        # Sockets are closed in a later turn of the loop than the one that asks for it.
        self.run(asyncio.sleep(0.01), _CLOSING_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        self.loop.close()


async def _awaited(close: Callable[[], Awaitable[None]]) -> None:
    await close()


_loops: dict[str, LoopThread] = {}
_lock = threading.Lock()


def loop_thread(purpose: str = "messages") -> LoopThread:
    """The loop of this process for a purpose: clients of brokers must not wait for code of users."""
    with _lock:
        known = _loops.get(purpose)
        if known is None or known.process != os.getpid():
            known = _loops[purpose] = LoopThread(purpose)
        return known


@atexit.register
def close_loop() -> None:
    """End the loops of this process, with all clients on them; the next client starts another."""
    with _lock:
        ended = list(_loops.values())
        _loops.clear()
    for each in ended:
        each.close()
