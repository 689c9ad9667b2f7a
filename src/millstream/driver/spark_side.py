"""What a run on Spark does with Spark's own checkpoint and JVM: check and copy the one, look at the other."""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path

from millstream.api.running.result import JvmLoad
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile, Savepoint
from millstream.driver.jvm import JvmWatch
from millstream.errors import ExternalFailure
from millstream.jobmaster.run import Run
from millstream.spark.files.logs import refuse_damaged
from millstream.spark.files.native import copy_spark_checkpoint

_FOLDER = "native/spark"
_COMMIT_SECONDS = 30.0


class SparkSide:
    """Spark's part of starting a run, and of looking at it."""

    shuffles = True

    def __init__(self) -> None:
        self.watch: JvmWatch | None = None
        """Since there is a query."""

    def check(self, run: Run, newest: EpochManifest | None) -> None:
        """Compare Spark's logs with the newest manifest."""
        folder = run.folder("spark")
        assert folder is not None, "a run on Spark has a checkpoint directory"
        refuse_damaged(folder, None if newest is None else newest.epoch, None if newest is None else newest.digest)

    def place(self, run: Run, root: Path, savepoint: Savepoint) -> None:
        """Copy Spark's files into the new lineage, under a new id; what an earlier try left there is dropped."""
        folder = run.folder("spark")
        assert folder is not None, "a run on Spark has a checkpoint directory"
        shutil.rmtree(folder, ignore_errors=True)
        copy_spark_checkpoint(root / _FOLDER, folder.resolve(), savepoint.epoch, query_id=str(uuid.uuid4()))

    def jvm(self) -> JvmLoad | None:
        """What Spark's JVM holds."""
        return None if self.watch is None else self.watch.load()


def newest_begun(folder: Path) -> int:
    """The newest epoch that Spark has logged as begun; -1 when there is none."""
    return max((int(path.name) for path in folder.glob("offsets/*") if path.name.isdigit()), default=-1)


def copy_committed(folder: Path | None, root: Path, epoch: int) -> list[CopiedFile]:
    """Copy Spark's checkpoint of an epoch, once Spark has logged that the epoch is done."""
    assert folder is not None, "a run on Spark has a checkpoint directory"
    deadline = time.monotonic() + _COMMIT_SECONDS
    while not (folder / "commits" / str(epoch)).exists():
        if time.monotonic() > deadline:
            msg = f"Spark did not log the end of epoch {epoch} in {_COMMIT_SECONDS:g} s"
            raise ExternalFailure(msg, code="SPARK-003", hint="ask again")
        time.sleep(0.02)
    target = root / _FOLDER
    shutil.rmtree(target, ignore_errors=True)
    copied = copy_spark_checkpoint(folder, target.resolve(), epoch)
    return [
        CopiedFile(name=file.name, path=f"{_FOLDER}/{file.name}", bytes=file.size, sha256=file.checksum)
        for file in copied
    ]
