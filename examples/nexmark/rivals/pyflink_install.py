"""PyFlink in a virtual environment of its own: it needs other versions of pandas and pyarrow than PySpark."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.3.0"
FOLDER = Path(__file__).parents[3] / ".venv-pyflink"
PYTHON = FOLDER / "bin" / "python"
_JARS = FOLDER / "jars"
_PARQUET = f"org.apache.flink:flink-sql-parquet:{VERSION}"
_HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "zstd-jni-*.jar", "commons-logging-*.jar")
_MINUTES = 15


def jars() -> list[Path]:
    """What Flink needs to read Parquet: its own reader, and classes of Hadoop, which come with PySpark."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None, "Millstream depends on PySpark"
    assert spark.submodule_search_locations is not None, "it is a package"
    beside = Path(spark.submodule_search_locations[0]) / "jars"
    return [*sorted(_JARS.glob("*.jar")), *(path for name in _HADOOP for path in sorted(beside.glob(name)))]


def installed() -> str:
    """Install what is missing; empty when PyFlink can run and read Parquet, otherwise the reason why it cannot."""
    return _brought(_steps())


def python_installed() -> str:
    """The same of PyFlink alone."""
    return _brought(_python_steps())


def _brought(steps: list[tuple[bool, list[str]]]) -> str:
    for is_there, command in steps:
        if is_there:
            continue
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MINUTES * 60, check=False)
        except (OSError, subprocess.TimeoutExpired) as problem:
            return _reason(command, str(problem))
        if done.returncode:
            return _reason(command, (done.stdout + done.stderr).strip()[-300:])
    return ""


def _steps() -> list[tuple[bool, list[str]]]:
    """What must be there, and the command that brings it."""
    maven = shutil.which("mvn") or "mvn"
    copy = [maven, "-q", "-B", "dependency:copy", f"-DoutputDirectory={_JARS}"]
    wanted = [_PARQUET]
    return [
        *_python_steps(),
        *[
            ((_JARS / f"{name.split(':')[1]}-{name.split(':')[2]}.jar").exists(), [*copy, f"-Dartifact={name}"])
            for name in wanted
        ],
    ]


def _python_steps() -> list[tuple[bool, list[str]]]:
    return [
        (PYTHON.exists(), [sys.executable, "-m", "venv", str(FOLDER)]),
        (
            any(FOLDER.glob(f"lib/python*/site-packages/apache_flink-{VERSION}.dist-info")),
            [str(PYTHON), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"],
        ),
    ]


def _reason(command: list[str], words: str) -> str:
    return f"PYFLINK IS NOT INSTALLED: {' '.join(command[:6])}: {words}"
