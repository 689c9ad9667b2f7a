"""Where the time of our epochs goes: calls of the driver are timed, and Spark's own account of its batches is read."""

from __future__ import annotations

import contextlib
import functools
import importlib
import statistics
import threading
import time
from collections import defaultdict
from typing import Any

from py4j.protocol import Py4JError

from millstream.api.running.result import EpochSummary

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
            kind = getattr(importlib.import_module(module), owner)
            setattr(kind, name, self._timed(part, getattr(kind, name)))
        driver = importlib.import_module("millstream.driver.run")
        driver.start_query = self._kept(driver.start_query)

    def _timed(self, part: str, call: Any) -> Any:
        @functools.wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                self.seconds[part].append(time.perf_counter() - began)

        return timed

    def _kept(self, start_query: Any) -> Any:
        @functools.wraps(start_query)
        def kept(*given: Any, **named: Any) -> Any:
            query = start_query(*given, **named)
            threading.Thread(target=self._look, args=(query,), daemon=True).start()
            return query

        return kept

    def _look(self, query: Any) -> None:
        """Spark keeps its last batches only."""
        with contextlib.suppress(OSError, Py4JError):  # the JVM ends first
            while query.isActive:
                self._batches |= {batch["batchId"]: dict(batch["durationMs"]) for batch in query.recentProgress}
                time.sleep(1)

    def note(self, epoch: EpochSummary) -> None:
        """What an epoch says of itself."""
        for step, seconds in epoch.load.steps.items():
            self.seconds[f"step {step}"].append(seconds)
        for vertex, load in epoch.load.vertices.items():
            self.seconds[f"vertex {vertex}: busy"].append(load.busy)

    def medians(self, *, skip: int) -> dict[str, float]:
        """Median milliseconds of each part, without the first epochs."""
        found = {part: 1000 * statistics.median(all_[skip:]) for part, all_ in self.seconds.items() if len(all_) > skip}
        batches = [durations for number, durations in sorted(self._batches.items()) if number >= skip]
        for name in sorted({name for batch in batches for name in batch}):
            found[f"Spark: {name}"] = float(statistics.median(batch.get(name, 0) for batch in batches))
        return found
