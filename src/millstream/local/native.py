"""Native savepoints of the local engine: the epoch's state file, copied."""

from __future__ import annotations

from pathlib import Path

from millstream.api.running.result import JvmLoad
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile, Savepoint
from millstream.checkpoint.savepoint_files import copy_back, copy_file
from millstream.errors import InvalidStep
from millstream.jobmaster.run import Run

_FOLDER = "native/local"


def copy_state(folder: Path | None, root: Path, epoch: int) -> list[CopiedFile]:
    """Copy the state of an epoch into a savepoint."""
    if folder is None:
        msg = "a run without a checkpoint directory keeps no files to copy"
        raise InvalidStep(msg, code="RUN-013", hint="take a canonical savepoint, or run with checkpoint=DIR")
    names = sorted(folder.glob(f"state-{epoch:012d}-*"))
    return [copy_file(path, root, f"{_FOLDER}/{path.name}", name=path.name) for path in names]


class LocalSide:
    """The local engine keeps no log beside the manifests: its state files are named by them."""

    shuffles = False

    def check(self, run: Run, newest: EpochManifest | None) -> None:
        """State files are verified when they are read."""

    def place(self, run: Run, root: Path, savepoint: Savepoint) -> None:
        """Bring the state file back."""
        folder = run.folder("local")
        assert folder is not None, "a lineage that goes on has a checkpoint directory"
        copy_back(root, [file for file in savepoint.native if file.path.startswith(_FOLDER)], folder)

    def jvm(self) -> JvmLoad | None:
        """There is none."""
        return None
