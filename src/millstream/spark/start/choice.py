"""Whether we start the JVM ourselves, or leave it to PySpark's launcher, which reads more settings than we do."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

SWITCH = "MILLSTREAM_FAST_START"
"""Environment variable: 0 leaves the start to PySpark."""
_LAUNCHERS_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_HOME",
    "SPARK_PREPEND_CLASSES",
    "SPARK_REMOTE",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)
_LAUNCHERS_CONFS = (
    "spark.archives",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.userClassPathFirst",
    "spark.files",
    "spark.jars",
    "spark.remote",
    "spark.repl.",
    "spark.submit.",
)
_PYTHONS_CONFS = ("spark.executorEnv.", "spark.pyspark.", "spark.python.")
_GRACEFUL_CONFS = ("spark.eventLog.", "spark.extraListeners", "spark.plugins", "spark.sql.queryExecutionListeners")
_ONE = frozenset({"", "1"})
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def is_local(master: str) -> bool:
    """Whether all of Spark runs in one JVM of this machine."""
    return master == "local" or master.startswith("local[")


def why_not(master: str, confs: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Why PySpark's own launcher starts the JVM; `None` when we do."""
    if environ.get(SWITCH, "1") == "0":
        return f"{SWITCH}=0"
    if sys.platform != "linux":
        return f"not tried on {sys.platform}"
    if not is_local(master):
        return f"master {master}"
    variable = next((name for name in _LAUNCHERS_VARIABLES if environ.get(name)), None)
    if variable is not None:
        return f"{variable} is set"
    conf = next((name for name in sorted(confs) if name.startswith(_LAUNCHERS_CONFS)), None)
    if conf is not None:
        return f"{conf} is set"
    if _has_gateway():
        return "Spark runs in this process"
    return "pyspark has a folder of settings" if (pyspark_home() / "conf").is_dir() else None


def why_no_zygote(confs: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Why each Python process starts from nothing: settings that an interpreter reads when it starts, or another Python."""
    conf = next((name for name in sorted(confs) if name.startswith(_PYTHONS_CONFS)), None)
    if conf is not None:
        return f"{conf} is set"
    if environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return "PYSPARK_PYTHON is another Python"
    threads = next((name for name in _THREAD_VARIABLES if environ.get(name, "") not in _ONE), None)
    return None if threads is None else f"{threads} is set"


def may_end_abruptly(confs: Mapping[str, str]) -> bool:
    """Whether nothing in the JVM is worth a graceful end."""
    return not any(name.startswith(_GRACEFUL_CONFS) for name in confs)


def pyspark_home() -> Path:
    """Where pyspark is installed, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        msg = "pyspark is not installed"
        raise ModuleNotFoundError(msg, name="pyspark")
    return Path(spec.origin).parent


def has_context() -> bool:
    """Whether Spark runs in this process, found without importing pyspark."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    return getattr(context, "_active_spark_context", None) is not None


def _has_gateway() -> bool:
    """Whether this process has a JVM already."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    return getattr(context, "_gateway", None) is not None
