"""The end of an epoch on Spark: the body of `foreachBatch`."""

from __future__ import annotations

import logging
import threading

from pyspark.sql import DataFrame

from millstream.checkpoint.failpoint import failpoint
from millstream.jobmaster.run import Run
from millstream.runtime.exchange.cells import DRIVER

logger = logging.getLogger(__name__)


class EpochLoop:
    """Collects the reports of each epoch and hands them to the run; remembers the newest epoch and what went wrong."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.last_epoch: int | None = None
        self.finished = threading.Event()
        self.problem: Exception | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Run the query's one action, then make the epoch durable and publish it.

        Collecting consumes every partition: Spark must see every row, or the next state version is missing.
        """
        try:
            self._run.begin_epoch(number)
            reports = [bytes(row.body) for row in batch.collect() if row.level == DRIVER]
            plan = self._run.finish_epoch(reports, number=number)
            failpoint("before_commit_log")
        except Exception as problem:
            self.problem = problem
            raise
        if self.last_epoch is None:
            logger.debug("the first epoch is published")
        self.last_epoch = number
        if plan.terminal:
            self.finished.set()
