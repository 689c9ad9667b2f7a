"""The end of a run for the functions of its workers: a pass over the Python workers that closes what they opened."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.spark.level import close_functions

_log = logging.getLogger(__name__)
_STAY_SECONDS = 0.1
"""A worker that has closed its functions is not free for the next task of the pass: another worker takes that one."""


def close_in_workers(session: SparkSession, digest: str) -> None:
    """Close the functions of a plan, best effort: a worker that is busy or gone is not reached."""
    tasks = session.sparkContext.defaultParallelism
    try:
        session.range(0, tasks, 1, tasks).mapInArrow(_closing(digest), "levels long").collect()
    except (PySparkException, Py4JError, OSError) as problem:
        _log.warning("the functions of the job were not closed: %s", str(problem).partition("\n")[0])


def _closing(digest: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def close(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            closed = close_functions(digest)
            time.sleep(_STAY_SECONDS)
            yield pa.RecordBatch.from_pydict({"levels": [closed]})

    return close
