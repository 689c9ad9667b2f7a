"""PyFlink in its own virtual environment, the one Nexmark has, and its Kafka connector beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from examples.nexmark.rivals import pyflink_install
from scripts import kafka_server

_JARS = Path(__file__).with_name("flink_kafka_jars.txt")
_TARGET = "kafka-5.0.0-2.2"


class Installed(NamedTuple):
    """What a side of PyFlink is started with, or why it cannot be."""

    python: Path
    jars: tuple[str, ...] = ()
    missing: str = ""


def installed() -> Installed:
    """Install what is not there."""
    python = pyflink_install.PYTHON
    if missing := pyflink_install.python_installed():
        return Installed(python, missing=missing)
    try:
        folder = kafka_server.fetched(_JARS, pyflink_install.FOLDER / _TARGET)
    except (OSError, subprocess.SubprocessError, SystemExit) as problem:
        return Installed(python, missing=f"PYFLINK HAS NO KAFKA CONNECTOR: {problem}")
    return Installed(python, jars=tuple(str(jar) for jar in sorted(folder.glob("*.jar"))))
