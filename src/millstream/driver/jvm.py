"""What Spark's JVM holds: its heap by Java's own account, and RocksDB's memory by what Spark tells of its newest epoch."""

from __future__ import annotations

import logging
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.api.running.result import JvmLoad

_EVERY = 5.0
"""Seconds between two looks: each is a few calls into the JVM."""
_log = logging.getLogger(__name__)


class JvmWatch:
    """Looks now and then at the JVM of this process; those of executors on other machines are not asked."""

    def __init__(self, session: SparkSession, query: StreamingQuery, *, has_state: bool) -> None:
        """`has_state` says whether RocksDB will have something to tell: it does once an epoch is over."""
        jvm: Any = session.sparkContext._jvm
        self._memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
        self._query, self._has_state = query, has_state
        self._looked = time.monotonic()
        self._found: JvmLoad | None = None

    def load(self) -> JvmLoad | None:
        """The newest look, or another one if that was long ago or lacks something."""
        now = time.monotonic()
        is_whole = self._found is not None and (self._found.state is not None or not self._has_state)
        if is_whole and now - self._looked < _EVERY:
            return self._found
        try:
            self._found, self._looked = self._look(), now
        except (Py4JError, OSError) as problem:
            # Figures inform, they decide nothing; a JVM that is gone ends the run by itself.
            _log.debug("the JVM could not be asked what it holds: %s", problem)
        return self._found

    def _look(self) -> JvmLoad:
        heap = self._memory.getHeapMemoryUsage()
        return JvmLoad(heap=heap.getUsed(), heap_limit=heap.getMax(), state=self._state())

    def _state(self) -> int | None:
        progress = self._query.lastProgress if self._has_state else None
        operators = [] if progress is None else progress["stateOperators"]
        return sum(each["memoryUsedBytes"] for each in operators) if operators else None
