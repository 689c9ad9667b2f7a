"""The engine of this process, as the registry finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.api.running.control import RunControl
from millstream.api.running.result import Listener, RunResult
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile
from millstream.contract.engine import Engine
from millstream.contract.pages import PageStore
from millstream.local.native import copy_state
from millstream.local.run import run
from millstream.local.state_files import load_state
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.state.read_only import ReadOnlyPages


class LocalEngine:
    """Runs jobs in this process, without a JVM."""

    reads_cheaply = True

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
        return run(deployment, clock=clock, listener=listener, control=control, start=start)

    def read_level(self, folder: Path, manifest: EpochManifest, level: int) -> Iterator[tuple[int, PageStore]]:
        """The pages of a keyed level at a retained epoch, subtask by subtask."""
        pages = load_state(folder, manifest)
        for task in range(manifest.parallelism):
            yield task, ReadOnlyPages(pages.get(f"{level}/{task}", {}))

    def copy_state(self, folder: Path, root: Path, epoch: int) -> list[CopiedFile]:
        """Copy the state file of an epoch into a savepoint."""
        return copy_state(folder, root, epoch)


ENGINE: Engine = LocalEngine()
