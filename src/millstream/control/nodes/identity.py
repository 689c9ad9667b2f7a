"""Who a node is: an id in its data directory, which one process at a time may use."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path
from typing import IO

from millstream.contract.run_folder import write_durably
from millstream.control.refusals import StateConflict


class NodeDirectory:
    """The data directory of a node, locked by this process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(root / "lock")
        self.id = _kept(root / "node-id")
        self.boot = uuid.uuid4().hex
        """Of this process: an earlier one of the same id has another."""
        self.runs = root / "runs"
        self.runs.mkdir(mode=0o700, exist_ok=True)

    def close(self) -> None:
        """Let another process be this node."""
        self._lock.close()


def _locked(path: Path) -> IO[str]:
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        msg = "another process is this node"
        hint = "end it, or give this one a data directory of its own: --data DIR"
        raise StateConflict(msg, code="CTL-042", found=str(path.parent), hint=hint) from None
    os.set_inheritable(file.fileno(), False)  # noqa: FBT003
    return file


def _kept(path: Path) -> str:
    """Written whole or not at all: a node that is killed here must not come back without a name."""
    if not path.exists():
        write_durably(path, f"node-{uuid.uuid4().hex[:8]}\n".encode())
    return path.read_text().strip()
