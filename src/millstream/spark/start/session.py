"""The Spark session: settings the engine depends on, and settings of one query."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from millstream.model.secret import with_secrets
from millstream.plan.deployment import DeploymentPlan
from millstream.spark.start import launch
from millstream.spark.start.choice import is_local
from millstream.spark.start.confs import context_confs
from millstream.spark.start.farewell import Farewell
from millstream.spark.start.jvm import JvmDied
from millstream.spark.start.launcher_jvm import end_with_python, output_to
from millstream.spark.start.local_files import FILE_MANAGER, LOCAL_FILES, use_local_files
from millstream.spark.start.private import jvm_log

logger = logging.getLogger(__name__)
_opening = threading.Lock()
"""Several jobs of a process may start at once; they share the context that the first of them starts."""
_STATE = "spark.sql.streaming.stateStore."
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
TASK_ATTEMPTS = 4
QUERY_CONFS: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Chosen for good by the first epoch of a checkpoint: transformWithState needs RocksDB, and format 2 names state files
    # per attempt, so that a retried epoch cannot mix with leftovers.
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    _STATE + "checkpointFormatVersion": "2",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows makes every write read first.
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Level 0 and the levels above share their workers only when Spark starts them with the same settings, and it shortens
    # the tracebacks of one of the two alone.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.adaptive.enabled": "false",
}


def open_session(deployment: DeploymentPlan, *, debug: bool = False) -> SparkSession:
    """A session for one query: its own settings on a shared context, which is started when there is none."""
    with _opening:
        active = SparkSession.getActiveSession() or _started(deployment, debug=debug)
    session = active.newSession()
    confs = {
        **QUERY_CONFS,
        "spark.sql.shuffle.partitions": str(deployment.plan.parallelism),
        "spark.sql.streaming.minBatchesToRetain": str(max(2, deployment.epochs.retained)),
    }
    if is_local(deployment.master):
        confs[_FILE_MANAGER] = FILE_MANAGER
    runtime_confs = {name: with_secrets(value) for name, value in deployment.confs if name.startswith("spark.sql.")}
    for name, value in {**confs, **runtime_confs}.items():
        session.conf.set(name, value)
    logger.debug("the session is open")
    return session


def _started(deployment: DeploymentPlan, *, debug: bool) -> SparkSession:
    # The callback bridge logs every error that passes through it; we raise them ourselves.
    logging.getLogger("py4j").setLevel(logging.DEBUG if debug else logging.CRITICAL)
    return _quickly(deployment, debug=debug) or _by_launcher(deployment, debug=debug)


def _quickly(deployment: DeploymentPlan, *, debug: bool) -> SparkSession | None:
    """Through a JVM that we started, perhaps long ago; `None` when there is none."""
    launched = launch.start_early(deployment, debug=debug)
    if launched is None:
        return None
    confs = {**context_confs(deployment, debug=debug), **launched.folder_confs}
    try:
        with launched.announced():
            if launched.has_local_files:
                confs["spark.hadoop.fs.file.impl"] = LOCAL_FILES
            session = _build(deployment, confs)
    except JvmDied as problem:
        launch.abandon(problem)
        return None
    launched.farewell = Farewell(partial(_stop, session), partial(_bear_a_sudden_end, session), _forget_session)
    if not launched.has_local_files:
        use_local_files(session)
    _look_for_no_sources(session)
    return session


def _by_launcher(deployment: DeploymentPlan, *, debug: bool) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with output_to(None if debug else jvm_log()):
        session = _build(deployment, context_confs(deployment, debug=debug))
    end_with_python(session)
    if is_local(deployment.master):
        use_local_files(session)
    return session


def retrying(master: str) -> str:
    """The master with as many attempts of a task as on a cluster: by default Spark ends a local query with the first one."""
    if master == "local":
        return f"local[1,{TASK_ATTEMPTS}]"
    inside = master.removeprefix("local[").removesuffix("]")
    is_plain = master == f"local[{inside}]" and "," not in inside
    return f"local[{inside},{TASK_ATTEMPTS}]" if is_plain else master


def _build(deployment: DeploymentPlan, confs: dict[str, str]) -> SparkSession:
    builder = SparkSession.Builder().master(retrying(deployment.master)).appName(f"millstream {deployment.name}")
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _stop(session: SparkSession) -> None:
    with contextlib.suppress(OSError, Py4JError):  # the JVM may be gone already
        session.sparkContext.stop()


def _bear_a_sudden_end(session: SparkSession) -> None:
    """What talks to the JVM would print a traceback when it is gone: the receiver of accumulators, and the garbage collector."""
    context: Any = session.sparkContext
    if context._accumulatorServer is not None:
        context._accumulatorServer.handle_error = lambda *_: None
    context._gateway._gateway_client.is_connected = False


def _forget_session() -> None:
    """Of a JVM that is gone: PySpark keeps what leads to it in its classes."""
    context: Any = SparkContext
    with contextlib.suppress(OSError, Py4JError):
        context._gateway.shutdown_callback_server()
    context._gateway = context._jvm = context._active_spark_context = None
    kept: Any = SparkSession
    kept._instantiatedSession = None


def _look_for_no_sources(session: SparkSession) -> None:
    """Spark asks a Python process for data sources of all installed packages; ours is registered, so there is no need.

    The name is private to Spark: where it is another one, Spark looks.
    """
    jvm: Any = session.sparkContext._jvm
    with contextlib.suppress(Py4JError, TypeError):
        sources = getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$"), "MODULE$")
        nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        getattr(sources, "dataSourceBuilders_$eq")(jvm.scala.Some(nothing))
