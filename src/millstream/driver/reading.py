"""Reads the state of a checkpoint through Spark in this process: in a reader, or where Spark runs already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.api.job import Job
from millstream.checkpoint.manifest import EpochManifest
from millstream.connectors.collect.spec import collect
from millstream.connectors.memory.spec import memory
from millstream.spark.query.state_reader import read_subtasks
from millstream.spark.start.session import open_session
from millstream.state.read_only import ReadOnlyPages


def read_level(
    folder: Path, manifest: EpochManifest, level: int, *, prefix: str = ""
) -> Iterator[tuple[int, ReadOnlyPages]]:
    """The pages of a level, subtask by subtask; starts Spark when it does not run in this process.

    Args:
        folder: Spark's folder in the checkpoint.
        manifest: of an epoch whose commit Spark retains.
        level: the keyed level.
        prefix: how the names of the wanted pages begin.
    """
    return read_subtasks(
        _session(manifest.parallelism),
        folder,
        manifest.epoch,
        level=level,
        depth=manifest.depth,
        parallelism=manifest.parallelism,
        prefix=prefix,
    )


def _session(parallelism: int) -> SparkSession:
    """A session with the settings of a query that has nothing to do."""
    job = Job("reading", parallelism=parallelism)
    job.source("nothing", memory([]), schema="n long").sink("nowhere", collect("nowhere"))
    return open_session(job.compile().deployment)
