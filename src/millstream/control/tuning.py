"""Settings of a run that only tune it: whoever may submit a job may choose them. What goes further is an author's.

A setting of Spark may name classes, files and programs, a master may be anybody's, and a checkpoint's folder is written and
removed: with any of them a job that is data would become code, or reach what it must not.
"""

from __future__ import annotations

import re

from millstream.control.settings import JobSettings

_MASTERS = re.compile(r"local(\[[0-9*]{1,6}(,[0-9]{1,4})?\])?")
_NAMES = frozenset({
    "spark.app.name", "spark.cleaner.periodicGC.interval", "spark.cores.max", "spark.default.parallelism", "spark.driver.cores",
    "spark.driver.maxResultSize", "spark.driver.memory", "spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor",
    "spark.excludeOnFailure.enabled", "spark.executor.cores", "spark.executor.heartbeatInterval", "spark.executor.instances",
    "spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory", "spark.locality.wait", "spark.log.level", "spark.memory.fraction",
    "spark.memory.offHeap.enabled", "spark.memory.offHeap.size", "spark.memory.storageFraction", "spark.network.timeout",
    "spark.python.worker.memory", "spark.python.worker.reuse", "spark.rpc.askTimeout", "spark.scheduler.mode",
    "spark.speculation", "spark.sql.autoBroadcastJoinThreshold", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions",
    "spark.task.cpus", "spark.task.maxFailures",
})  # fmt: skip
_FAMILIES = (
    "spark.dynamicAllocation.",
    "spark.sql.adaptive.",
    "spark.sql.execution.arrow.",
    "spark.sql.streaming.stateStore.rocksdb.",
)


def beyond_tuning(settings: JobSettings) -> list[str]:
    """What of the settings does more than tune a run, in words."""
    found = [f"the Spark setting {name!r}" for name in sorted(settings.confs) if not _tunes(name)]
    found += [] if is_here(settings.master) else [f"the master {settings.master!r}"]
    places = {"checkpoint": settings.checkpoint, "manifests": settings.manifests}
    return found + [f"a place of its own for {name!r}" for name, place in places.items() if place is not None]


def is_here(master: str) -> bool:
    """Whether Spark runs on the node itself."""
    return _MASTERS.fullmatch(master) is not None


def _tunes(name: str) -> bool:
    return name in _NAMES or name.startswith(_FAMILIES)
