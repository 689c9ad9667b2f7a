"""A JVM that PySpark's launcher starts: where its output goes, and that it ends with us."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.spark.start.private import open_log

_END_SECONDS = 10.0


@contextlib.contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """While the JVM starts, standard error leads to a file; the JVM inherits it and its Python workers too."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with open_log(log) as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def end_with_python(session: SparkSession) -> None:
    """See to it that the JVM is gone when this process is.

    It ends by itself when its standard input does. But RocksDB waits at the end for its compactions, and a compaction that
    wants to log waits for the JVM, which has stopped: such a JVM would stay for ever, with all its memory.
    """
    context = session.sparkContext
    process = getattr(context._gateway, "proc", None)
    if isinstance(process, subprocess.Popen):
        # Registered first, it runs last: Spark is told to stop before its process has to.
        atexit.register(end_process, process)
        atexit.register(context.stop)


def end_process(process: subprocess.Popen[bytes], seconds: float = _END_SECONDS) -> None:
    """Let a process end that ends with its standard input; one that does not is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
