"""How much one caller may ask for: sizes, rates and streams, counted in each process."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable

_REMEMBERED = 10_000
"""Callers whose rates are kept; the ones that were silent longest are forgotten first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the service takes from one caller."""

    body_bytes: int = 1024 * 1024
    body_seconds: float = 30.0
    """For the whole of a body; of an archive, for its next piece."""
    archive_rate: int = 16 * 1024
    """Bytes per second that an archive has to come with, behind its first seconds."""
    json_depth: int = 32
    requests_per_second: float = 20.0
    burst: int = 60
    logins_per_minute: int = 5
    streams: int = 10
    stream_seconds: float = 900.0
    recheck_seconds: float = 2.0
    """How long a stream may go on after its caller's rights have ended."""
    stream_queue: int = 100
    poll_seconds: float = 0.25
    pulse_seconds: float = 1.0
    """Between two questions to the node of a run, and two looks at jobs, operations and nodes, while somebody listens."""
    comment_seconds: float = 15.0


class Rates:
    """A bucket per caller: it fills at a steady rate, and each request takes one out of it."""

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float]) -> None:
        self._rate, self._burst, self._monotonic = rate, burst, monotonic
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Take one out; gives the seconds to wait where there is none."""
        with self._lock:
            now = self._monotonic()
            left, at = self._buckets.pop(caller, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate
            self._buckets[caller] = (left - 1 if left >= 1 else left, now)
            while len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
            return wait


class StreamCounts:
    """Open streams per caller."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = defaultdict(int)

    def opened(self, caller: str) -> bool:
        """Count one more, unless the caller has all it may have. Called by the event loop alone."""
        if self._open[caller] >= self._most:
            return False
        self._open[caller] += 1
        return True

    def closed(self, caller: str) -> None:
        """One has ended."""
        self._open[caller] -= 1
        if self._open[caller] <= 0:
            del self._open[caller]
