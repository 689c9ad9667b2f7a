"""Watches a running query: requests, the lease, the time an epoch takes, and the end."""

from __future__ import annotations

import time
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from millstream.driver.executors import Executors
from millstream.driver.planner_socket import PlannerSocket
from millstream.driver.spark_side import copy_committed
from millstream.driver.subtasks import SparkSubtasks
from millstream.errors import ExternalFailure
from millstream.jobmaster.run import Run
from millstream.spark.query.epoch import EpochLoop

_SETTLE_SECONDS = 10.0
"""Spark logs an epoch right behind its output; a store that is slower than this costs a replay, no rows."""


def watch(
    query: StreamingQuery,
    loop: EpochLoop,
    run_state: Run,
    planner: PlannerSocket,
    executors: Executors,
    subtasks: SparkSubtasks,
) -> None:
    """Wait until the run has ended, let Spark log its last epoch, then stop the query."""
    try:
        while not loop.finished.wait(0.02) and query.isActive and run_state.requests.ended is None:
            executors.check()
            subtasks.look()
            _attend(loop, run_state, planner)
        ended = run_state.requests.ended
        if ended is None or (query.exception() is not None and ended != "cancelled"):
            query.awaitTermination()
            msg = "the Spark query ended before its input did"
            raise ExternalFailure(msg, code="SPARK-002", hint="start the job again; it resumes from its checkpoint")
        if ended != "cancelled":
            _settle(query, run_state.last_epoch)
            if loop.problem is not None:
                # The last epoch is published; what failed is a listener that was told so.
                raise loop.problem
        run_state.result.ended = ended
    finally:
        query.stop()


def _attend(loop: EpochLoop, run_state: Run, planner: PlannerSocket) -> None:
    """What must not wait for the end of an epoch."""
    if run_state.lease.lost is not None:
        raise run_state.lease.lost
    if run_state.is_overdue:
        run_state.refuse_overdue()
    run_state.requests.poll()
    wanted = run_state.requests.native
    if wanted is not None and (wanted.request.action != "suspend" or _is_quiet(loop, run_state, planner)):
        run_state.take_native(partial(copy_committed, run_state.folder("spark")))


def _is_quiet(loop: EpochLoop, run_state: Run, planner: PlannerSocket) -> bool:
    """Whether no epoch is under way; a copy that ends the job would lack it, although its output is published."""
    resumed = -1 if run_state.resumed is None else run_state.resumed.epoch
    return planner.planned <= (resumed if loop.last_epoch is None else loop.last_epoch)


def _settle(query: StreamingQuery, epoch: int) -> None:
    """Wait until Spark has logged the newest epoch: its state can be read then, and a restart need not replay it."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while query.isActive and time.monotonic() < deadline and not _is_logged(query, epoch):
        time.sleep(0.01)


def _is_logged(query: StreamingQuery, epoch: int) -> bool:
    progress = query.lastProgress
    return progress is not None and progress["batchId"] >= epoch
