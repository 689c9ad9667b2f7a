"""The Spark session: settings the engine depends on, and settings of one query."""

from __future__ import annotations

import logging
import os
import sys

from pyspark.sql import SparkSession

from millstream.plan.deployment import DeploymentPlan
from millstream.spark.jvm import end_with_python, java_options, jvm_log, output_to
from millstream.spark.local_files import FILE_MANAGER, use_local_files

_STATE = "spark.sql.streaming.stateStore."
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
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
_CONTEXT_CONFS: dict[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def open_session(deployment: DeploymentPlan, *, debug: bool = False) -> SparkSession:
    """A session for one query: its own settings on a shared context, which is started when there is none."""
    active = SparkSession.getActiveSession()
    if active is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        active = _started(deployment, debug=debug)
    session = active.newSession()
    confs = {
        **QUERY_CONFS,
        "spark.sql.shuffle.partitions": str(deployment.plan.parallelism),
        "spark.sql.streaming.minBatchesToRetain": str(max(2, deployment.epochs.retained)),
    }
    if _is_local(deployment):
        confs[_FILE_MANAGER] = FILE_MANAGER
    runtime_confs = {name: value for name, value in deployment.confs if name.startswith("spark.sql.")}
    for name, value in {**confs, **runtime_confs}.items():
        session.conf.set(name, value)
    return session


def _is_local(deployment: DeploymentPlan) -> bool:
    """Whether all of Spark runs in one JVM of this machine."""
    return deployment.master.startswith("local[") or deployment.master == "local"


def _started(deployment: DeploymentPlan, *, debug: bool) -> SparkSession:
    # The callback bridge logs every error that passes through it; we raise them ourselves.
    logging.getLogger("py4j").setLevel(logging.DEBUG if debug else logging.CRITICAL)
    confs = {
        **_CONTEXT_CONFS,
        "spark.driver.memory": f"{deployment.memory.driver_mb}m",
        "spark.driver.extraJavaOptions": " ".join(java_options(quiet=not debug)),
        **dict(deployment.confs),
    }
    with output_to(None if debug else jvm_log()):
        session = _build(deployment, confs)
    end_with_python(session)
    if _is_local(deployment):
        use_local_files(session)
    return session


def _build(deployment: DeploymentPlan, confs: dict[str, str]) -> SparkSession:
    builder = SparkSession.Builder().master(deployment.master).appName(f"millstream {deployment.name}")
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
