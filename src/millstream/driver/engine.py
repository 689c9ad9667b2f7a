"""The engine on Spark, as the registry finds it: what takes long to start is started before pyspark is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.api.running.control import RunControl
from millstream.api.running.result import Listener, RunResult
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile
from millstream.contract.engine import Engine
from millstream.contract.pages import PageStore
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.spark.start.choice import has_context
from millstream.spark.start.launch import start_early


class SparkEngine:
    """Runs jobs on Spark through PySpark."""

    reads_cheaply = False

    def run(
        self,
        deployment: DeploymentPlan,
        *,
        clock: Callable[[], int] | None = None,
        listener: Listener | None = None,
        control: RunControl | None = None,
        start: Start | None = None,
        debug: bool = False,
    ) -> RunResult:
        """Run a job until its input ends, or until `control` asks for another end."""
        start_early(deployment, debug=debug)
        from millstream.driver.run import run

        return run(deployment, clock=clock, listener=listener, control=control, start=start, debug=debug)

    def read_level(self, folder: Path, manifest: EpochManifest, level: int) -> Iterator[tuple[int, PageStore]]:
        """The pages of a keyed level at a retained epoch, subtask by subtask: by a reader, unless Spark runs in this process."""
        if has_context():
            from millstream.driver.reading import read_level

            return read_level(folder, manifest, level)
        # A run, which starts as fast as it can, has no use for it.
        from millstream.driver.reader_client import read_by_reader

        return read_by_reader(folder, manifest, level)

    def copy_state(self, folder: Path, root: Path, epoch: int) -> list[CopiedFile]:
        """Copy Spark's checkpoint of an epoch, once Spark has logged that the epoch is done."""
        from millstream.driver.spark_side import copy_committed

        return copy_committed(folder, root, epoch)


ENGINE: Engine = SparkEngine()
