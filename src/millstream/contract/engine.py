"""What an engine implements: it runs jobs, reads what it stored, and copies it. Manifests and deployments name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from millstream.api.running.control import RunControl
from millstream.api.running.result import Listener, RunResult
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile
from millstream.contract.pages import PageStore
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start


class Engine(Protocol):
    """One value per engine, found by name in the registry; loading it must not bring heavy libraries along."""

    reads_cheaply: bool
    """Whether reading stored state starts nothing."""

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
        ...

    def read_level(self, folder: Path, manifest: EpochManifest, level: int) -> Iterator[tuple[int, PageStore]]:
        """The pages of a keyed level at a retained epoch, subtask by subtask.

        Args:
            folder: the engine's own folder in a checkpoint or native savepoint.
            manifest: of the epoch.
            level: the keyed level, from 1 on.
        """
        ...

    def copy_state(self, folder: Path, root: Path, epoch: int) -> list[CopiedFile]:
        """Copy the engine's own files of an epoch into a savepoint at `root`."""
        ...
