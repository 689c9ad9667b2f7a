"""The orderly end of a Python worker: Spark forks its workers, and such a process leaves without exit handlers."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable


def call_at_end(close: Callable[[], None]) -> None:
    """Call something when this process ends by itself, whichever of the two ways its interpreter leaves.

    A worker whose connection Spark has closed leaves by `os._exit(0)`. Another code is a crash, and a process that a user's
    function forked shares connections with this one: neither closes anything.
    """
    atexit.register(close)
    leave, mine = os._exit, os.getpid()

    def leave_closed(code: int) -> None:
        os._exit = leave
        if code == 0 and os.getpid() == mine:
            close()
        leave(code)

    os._exit = leave_closed  # type: ignore[assignment]
