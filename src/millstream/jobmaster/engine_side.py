"""What an engine does with its own files while a run starts, and what it takes while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from millstream.api.running.result import JvmLoad
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import Savepoint

if TYPE_CHECKING:
    from millstream.jobmaster.run import Run


class EngineSide(Protocol):
    """What an engine does with its own files while a run starts, and what it takes while it runs."""

    shuffles: bool
    """Whether rows for another subtask go through a shuffle."""

    def check(self, run: Run, newest: EpochManifest | None) -> None:
        """Refuse files that do not fit the newest durable epoch."""
        ...

    def place(self, run: Run, root: Path, savepoint: Savepoint) -> None:
        """Put the files of a native savepoint where the lineage keeps its state."""
        ...

    def jvm(self) -> JvmLoad | None:
        """What its JVM holds; `None` while it has none. Asked with every epoch, so it looks now and then only."""
        ...
