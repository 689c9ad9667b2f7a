"""Named places where a test can stop the process, by the environment variable `MILLSTREAM_FAILPOINTS`.

Its value is a comma-separated list of `name:nth:action`. Actions: `kill` ends the process at once, `stop` pauses it until
SIGCONT, `sleep` waits five seconds, `raise` raises an error of ours, `enospc` the error of a full disk. What was hit is
appended to the file `MILLSTREAM_FAILPOINT_LOG`, if one is named.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from millstream.errors import ExternalFailure

VARIABLE = "MILLSTREAM_FAILPOINTS"
LOG = "MILLSTREAM_FAILPOINT_LOG"
_SLEEP_SECONDS = 5.0
_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Do what the environment asks for at this place; nothing by default."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    _hits[name] += 1
    for item in wanted.split(","):
        place, nth, action = item.split(":")
        if place == name and int(nth) == _hits[name]:
            _note(item)
            _act(name, action)


def reset() -> None:
    """Forget how often each place was passed."""
    _hits.clear()


def _note(item: str) -> None:
    log = os.environ.get(LOG)
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(item + "\n")
            file.flush()
            os.fsync(file.fileno())


def _act(name: str, action: str) -> None:
    if action not in _ACTIONS:
        msg = f"unknown failpoint action {action!r}; known are {', '.join(_ACTIONS)}"
        raise ValueError(msg)
    _ACTIONS[action](name)


def _raise(name: str) -> None:
    msg = f"failpoint {name!r}"
    raise ExternalFailure(msg, code="TEST-FAILPOINT", hint=f"unset {VARIABLE}")


def _disk_full(_: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_ACTIONS: dict[str, Callable[[str], None]] = {
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "sleep": lambda _: time.sleep(_SLEEP_SECONDS),
    "raise": _raise,
    "enospc": _disk_full,
}
