"""Run a job on Spark until its input ends."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

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
    deployment: DeploymentPlan, *, clock: Clock | None = None, listener: Listener | None = None, debug: bool = False
) -> RunResult:
    """Run until the terminal epoch is published. Without a checkpoint directory a temporary one is used and removed."""
    if deployment.checkpoint is not None:
        return _run(deployment, clock, listener, debug=debug)
    folder = tempfile.mkdtemp(prefix="millstream-")
    try:
        result = _run(dataclasses.replace(deployment, checkpoint=folder), clock, listener, debug=debug)
        result.checkpoint = None
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(deployment: DeploymentPlan, clock: Clock | None, listener: Listener | None, *, debug: bool) -> RunResult:
    run_state = Run(deployment, clock=clock, listener=listener)
    try:
        if not run_state.is_complete:
            _run_query(deployment, run_state, debug=debug)
        return run_state.result
    finally:
        run_state.close()


def _run_query(deployment: DeploymentPlan, run_state: Run, *, debug: bool) -> None:
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
            _wait(query, loop)
        except PySparkException as problem:
            cause = loop.problem or planner.problem
            raise (cause or translated(problem)) from (None if not debug else problem)
        finally:
            planner.close()


def _wait(query: StreamingQuery, loop: EpochLoop) -> None:
    """Wait for the terminal epoch, let Spark log its commit, then stop the query."""
    try:
        while not loop.finished.wait(0.02):
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
