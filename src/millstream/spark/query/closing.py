"""The end of a run for the functions of its workers: a pass over the Python workers that closes what they opened."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.spark.query.level import close_functions

_log = logging.getLogger(__name__)
_STAY_SECONDS = 0.1
"""A worker that has closed its functions is not free for the next task of the pass: another worker takes that one."""
_INTERRUPT = "spark.job.interruptOnCancel"
_LONGEST_SECONDS = 10.0
"""A run does not wait longer for workers that are not there, or whose functions do not come to an end."""


def close_in_workers(session: SparkSession, digest: str) -> None:
    """Close the functions of a plan, best effort: a worker that is busy or gone is not reached."""
    context = session.sparkContext
    try:
        tasks = context.defaultParallelism
        with _at_most(_LONGEST_SECONDS, context, f"millstream-close-{digest}"):
            session.range(0, tasks, 1, tasks).mapInArrow(_closing(digest), "levels long").collect()
    except (PySparkException, Py4JError, OSError) as problem:
        _log.warning("the functions of the job were not closed: %s", str(problem).partition("\n")[0])


@contextlib.contextmanager
def _at_most(seconds: float, context: SparkContext, tag: str) -> Iterator[None]:
    """Spark's jobs of this thread are ended when they have taken that long, and their workers with them."""
    before = context.getLocalProperty(_INTERRUPT)
    context.setLocalProperty(_INTERRUPT, "true")
    timer = threading.Timer(seconds, context.cancelJobsWithTag, [tag])
    timer.daemon = True
    context.addJobTag(tag)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        context.removeJobTag(tag)
        context.setLocalProperty(_INTERRUPT, before)  # type: ignore[arg-type]


def _closing(digest: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def close(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            closed = close_functions(digest)
            time.sleep(_STAY_SECONDS)
            yield pa.RecordBatch.from_pydict({"levels": [closed]})

    return close
