"""The Spark session: settings the engine depends on, and settings of one query."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.plan.deployment import DeploymentPlan

_STATE = "spark.sql.streaming.stateStore."
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
    runtime_confs = {name: value for name, value in deployment.confs if name.startswith("spark.sql.")}
    for name, value in {**confs, **runtime_confs}.items():
        session.conf.set(name, value)
    return session


def _started(deployment: DeploymentPlan, *, debug: bool) -> SparkSession:
    # The callback bridge logs every error that passes through it; we raise them ourselves.
    logging.getLogger("py4j").setLevel(logging.DEBUG if debug else logging.CRITICAL)
    java_options = ["-Xss16m"]  # a long error message in a callback overflows the default stack
    if not debug:
        java_options.append(f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}")
    confs = {
        **_CONTEXT_CONFS,
        "spark.driver.memory": f"{deployment.memory.driver_mb}m",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        **dict(deployment.confs),
    }
    with _jvm_output(None if debug else jvm_log()):
        return _build(deployment, confs)


def jvm_log() -> Path:
    """Where the JVM's own output goes, so that the user's terminal shows only ours."""
    return Path(tempfile.gettempdir()) / f"millstream-spark-{os.getpid()}.log"


@contextlib.contextmanager
def _jvm_output(log: Path | None) -> Iterator[None]:
    """While the JVM starts, standard error leads to a file; the JVM inherits it and its Python workers too."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _build(deployment: DeploymentPlan, confs: dict[str, str]) -> SparkSession:
    builder = SparkSession.Builder().master(deployment.master).appName(f"millstream {deployment.name}")
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
