"""Where the time of our epochs goes: calls of the driver are timed, and Spark's own account of its batches is read."""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections import defaultdict
from typing import Any

_CALLS = {
    "plan": ("millstream.jobmaster.planner.planner", "Planner", "_readings"),
    "commit: prepare": ("millstream.checkpoint.coordinator", "EpochCoordinator", "_prepared"),
    "commit: durable": ("millstream.checkpoint.coordinator", "EpochCoordinator", "_make_durable"),
    "commit: publish": ("millstream.checkpoint.coordinator", "EpochCoordinator", "_publish"),
    "finish": ("millstream.jobmaster.run", "Run", "finish_epoch"),
}


class EpochParts:
    """Seconds of the parts of epochs, gathered while a job runs in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._batches: dict[int, dict[str, int]] = {}
        for part, (module, owner, name) in _CALLS.items():
            kind = getattr(__import__(module, fromlist=[owner]), owner)
            setattr(kind, name, self._timed(part, getattr(kind, name)))
        threading.Thread(target=self._look, daemon=True).start()

    def _timed(self, part: str, call: Any) -> Any:
        @functools.wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                self.seconds[part].append(time.perf_counter() - began)

        return timed

    def _look(self) -> None:
        """Spark keeps its last hundred batches."""
        from pyspark.sql import SparkSession

        while True:
            time.sleep(5)
            session = SparkSession._instantiatedSession
            for query in session.streams.active if session is not None else ():
                self._batches |= {batch["batchId"]: dict(batch["durationMs"]) for batch in query.recentProgress}

    def medians(self, *, skip: int) -> dict[str, float]:
        """Median milliseconds of each part, without the first epochs."""
        found = {part: 1000 * statistics.median(all_[skip:]) for part, all_ in self.seconds.items() if len(all_) > skip}
        batches = [durations for number, durations in sorted(self._batches.items()) if number >= skip]
        for name in sorted({name for batch in batches for name in batch}):
            found[f"Spark: {name}"] = float(statistics.median(batch.get(name, 0) for batch in batches))
        return found
