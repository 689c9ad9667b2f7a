"""Run a job on Spark until its input ends."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from millstream.driver.planner_socket import PlannerSocket
from millstream.errors import ExternalFailure
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.planner import Clock
from millstream.runtime.run import Listener, Run, RunResult
from millstream.spark.compile import start_query
from millstream.spark.epoch import EpochLoop
from millstream.spark.errors import translated
from millstream.spark.session import open_session

_SETTLE_SECONDS = 10.0


def run(
    deployment: DeploymentPlan,
    *,
    clock: Clock | None = None,
    listener: Listener | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    debug: bool = False,
) -> RunResult:
    """Run until the input ends, or until `should_stop` says to drain: read no more, close windows, publish, end.

    Without a checkpoint directory a temporary one is used and removed.
    """
    if deployment.checkpoint is not None:
        run_state = Run(deployment, engine="spark", clock=clock, listener=listener)
        try:
            if not run_state.is_complete:
                _run_query(deployment, run_state, should_stop, debug=debug)
            return run_state.result
        finally:
            run_state.close()
    folder = tempfile.mkdtemp(prefix="millstream-")
    try:
        temporary = dataclasses.replace(deployment, checkpoint=folder)
        result = run(temporary, clock=clock, listener=listener, should_stop=should_stop, debug=debug)
        result.checkpoint = None
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_query(deployment: DeploymentPlan, run_state: Run, should_stop: Callable[[], bool], *, debug: bool) -> None:
    assert deployment.checkpoint is not None
    session = open_session(deployment, debug=debug)
    loop = EpochLoop(run_state)
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        planner = PlannerSocket(run_state, Path(folder) / "planner.sock")
        try:
            query = start_query(
                session,
                deployment,
                planner=planner.path,
                checkpoint=str(Path(deployment.checkpoint).resolve() / "spark"),
                on_epoch=loop,
            )
            _wait(query, loop, run_state, should_stop)
        except PySparkException as problem:
            raise translated(planner.problem or loop.problem or problem) from (problem if debug else None)
        finally:
            planner.close()


def _wait(query: StreamingQuery, loop: EpochLoop, run_state: Run, should_stop: Callable[[], bool]) -> None:
    """Wait for the terminal epoch, let Spark log its commit, then stop the query."""
    try:
        while not loop.finished.wait(0.02):
            if should_stop():
                run_state.planner.drain()
            if not query.isActive:
                break
        if query.exception() is not None or not loop.finished.is_set():
            query.awaitTermination()
            msg = "the Spark query ended before its input did"
            raise ExternalFailure(msg, code="SPARK-002", hint="start the job again; it resumes from its checkpoint")
        deadline = time.monotonic() + _SETTLE_SECONDS
        while query.isActive and time.monotonic() < deadline and not _is_logged(query, loop.terminal_epoch):
            time.sleep(0.01)
    finally:
        query.stop()


def _is_logged(query: StreamingQuery, epoch: int | None) -> bool:
    progress = query.lastProgress
    return progress is not None and progress["batchId"] == epoch
