"""Named places where a test can stop the process, by the environment variable `MILLSTREAM_FAILPOINTS`.

Its value is a comma-separated list of `name:nth:action`; action is `kill` (end the process at once) or `raise`.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from millstream.errors import ExternalFailure

VARIABLE = "MILLSTREAM_FAILPOINTS"
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
            _act(name, action)


def reset() -> None:
    """Forget how often each place was passed."""
    _hits.clear()


def _act(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "raise":
        msg = f"failpoint {name!r}"
        raise ExternalFailure(msg, code="TEST-FAILPOINT", hint=f"unset {VARIABLE}")
    msg = f"unknown failpoint action {action!r}; known are kill and raise"
    raise ValueError(msg)
