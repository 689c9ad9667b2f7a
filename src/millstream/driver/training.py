"""`python -m millstream.driver.training ENTRY MEMORY OPTIONS`: makes an entry of the cache for JVMs with these settings."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark
from pyspark.java_gateway import launch_gateway

import millstream as ms
from millstream.driver.run import run
from millstream.plan.deployment import Deployment
from millstream.spark.start import caches, launch
from millstream.spark.start.command import settings_of, spark_jars
from millstream.spark.start.jvm import Jvm
from millstream.spark.start.local_files import compiled_classes


def train(entry: Path, confs: dict[str, str]) -> None:
    """Make the jar, then the archive, then say that both are there."""
    _make_jar(entry / caches.JAR, confs)
    (entry / caches.ARCHIVE).unlink(missing_ok=True)
    launch.start_noting(confs, entry)
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        for _ in range(2):
            run(_job(folder).compile(Deployment(master="local[2]", checkpoint=f"{folder}/checkpoint")).deployment)
    launch.close()
    caches.finish(entry, f"{settings_of(confs).java}, pyspark {pyspark.__version__}")


def _make_jar(jar: Path, confs: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        command = settings_of(confs).command(spark_jars())
        jvm = Jvm(command, told_at=Path(folder) / "connection", log=None, environ=os.environ)
        with jvm.announced():
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            classes = compiled_classes(gateway.jvm)
            gateway.shutdown()
        jvm.kill()
    with zipfile.ZipFile(jar, "w") as file:
        for name, content in sorted(classes.items()):
            file.writestr(name.replace(".", "/") + ".class", content)


def _job(folder: str) -> ms.Job:
    """What every job makes the JVM do: read, shuffle, keep state, write, resume."""
    job = ms.Job("training", rows_per_epoch=100)
    rows = job.source("rows", ms.datagen(rows=250, fields={"n": {"kind": "sequence"}}))
    parities = rows.with_columns(parity="n % 2").key_by("parity")
    parities.aggregate(n=ms.count(), id="counts").sink("counts", ms.files(f"{folder}/counts"))
    return job


def main() -> None:
    """Once at a time, and behind everything else."""
    entry, memory, options = Path(sys.argv[1]), *sys.argv[2:4]
    os.nice(19)
    with (entry / caches.LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if caches.is_wanted(entry):
            # It stands until the entry is whole: what fails once is not tried with every run.
            (entry / caches.FAILED).touch()
            train(entry, {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": options})


if __name__ == "__main__":
    main()
