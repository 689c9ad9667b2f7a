"""Run a job on Spark until its input ends or someone ends it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from millstream.api.running.control import RunControl
from millstream.api.running.result import Listener, RunResult
from millstream.driver.executors import Executors
from millstream.driver.jvm import JvmWatch
from millstream.driver.planner_socket import PlannerSocket
from millstream.driver.spark_side import SparkSide, newest_begun
from millstream.driver.subtasks import SparkSubtasks
from millstream.driver.watch import watch
from millstream.errors import MillstreamError
from millstream.jobmaster.attempts import Attempts, run_tolerant
from millstream.jobmaster.planner.planner import Clock
from millstream.jobmaster.run import Run
from millstream.jobmaster.stopping import NoSignals, StopSignals, stop_signals
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.spark.query.closing import close_in_workers
from millstream.spark.query.compile import ship, start_query
from millstream.spark.query.epoch import EpochLoop
from millstream.spark.query.errors import translated
from millstream.spark.query.shipping import has_closing
from millstream.spark.start.session import open_session
from millstream.tracebacks import is_debugging

logger = logging.getLogger(__name__)


def run(
    deployment: DeploymentPlan,
    *,
    clock: Clock | None = None,
    listener: Listener | None = None,
    control: RunControl | None = None,
    start: Start | None = None,
    debug: bool = False,
) -> RunResult:
    """Run until the input ends, or until `control` asks for another end.

    Without a checkpoint directory a temporary one is used and removed.
    """
    control, side = control or RunControl(), SparkSide()
    with stop_signals(control, deployment.on_stop) as signals:
        with _checkpointed(deployment) as placed:
            open_run = partial(
                Run,
                placed,
                engine="spark",
                clock=clock,
                listener=listener,
                control=control,
                start=start,
                side=side,
            )
            attempts = Attempts(
                open_run, partial(_run_query, side=side, signals=signals, debug=debug or is_debugging())
            )
            result = run_tolerant(attempts.once, deployment.epochs.tolerated_failures, attempts, control)
        result.checkpoint = deployment.checkpoint
        return signals.checked(result)


@contextlib.contextmanager
def _checkpointed(deployment: DeploymentPlan) -> Iterator[DeploymentPlan]:
    """A deployment with a checkpoint directory, if need be one that is removed at the end."""
    if deployment.checkpoint is not None:
        yield deployment
        return
    folder = tempfile.mkdtemp(prefix="millstream-")
    try:
        yield dataclasses.replace(deployment, checkpoint=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_query(run_state: Run, *, side: SparkSide, signals: StopSignals | NoSignals, debug: bool) -> None:
    deployment, checkpoint = run_state.deployment, run_state.folder("spark")
    assert checkpoint is not None, "a run on Spark has a checkpoint directory"
    session = open_session(deployment, debug=debug)
    signals.hold()  # Spark takes Ctrl-C for itself where it starts
    loop = EpochLoop(run_state)
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        shipped = ship(deployment, folder)
        planner = PlannerSocket(run_state, Path(folder) / "planner.sock", begun=newest_begun(checkpoint))
        try:
            executors, place = Executors(session, deployment), str(checkpoint.resolve())
            query = start_query(session, deployment, shipped, planner=planner.path, checkpoint=place, on_epoch=loop)
            side.watch = JvmWatch(session, query, has_state=deployment.plan.depth > 0)
            logger.debug("the query has started")
            watch(query, loop, run_state, planner, executors, SparkSubtasks(session, run_state))
        except (PySparkException, Py4JError, OSError) as problem:
            if _is_cancelled(run_state):
                return
            cause = run_state.lease.lost or planner.problem or loop.problem or problem
            error = translated(cause)
            raise error from _shown_cause(error, cause, debug=debug)
        finally:
            planner.close()
            if has_closing(deployment):
                close_in_workers(session, shipped.digest)


def _shown_cause(error: Exception, cause: Exception, *, debug: bool) -> BaseException | None:
    """What went wrong in our own code is shown with where it did; Spark's account only to those who ask."""
    is_known = isinstance(cause, (MillstreamError, PySparkException, Py4JError, OSError))
    return cause if error is not cause and (debug or not is_known) else error.__cause__


def _is_cancelled(run_state: Run) -> bool:
    """Whether the run was to end at once anyway: a signal to all processes of a service ends Spark too."""
    run_state.requests.poll()
    if run_state.requests.ended == "cancelled":
        run_state.result.ended = "cancelled"
    return run_state.requests.ended == "cancelled"
