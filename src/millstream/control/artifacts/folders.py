"""The code of artifacts on this machine: unpacked when a run needs it, removed with its artifact."""

from __future__ import annotations

import datetime as dt
import logging
import shutil
from pathlib import Path

from millstream.control.artifacts.collect import GRACE, Collected, collect
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.artifacts.unpack import unpack
from millstream.control.metadata.database import Metadata
from millstream.errors import ExternalFailure

_log = logging.getLogger(__name__)


class CodeFolders:
    """The code of artifacts, unpacked once for each node, and once for each server that compiles it."""

    def __init__(self, store: ArtifactStore, root: Path) -> None:
        self._store, self._root = store, root

    def folder(self, sha256: str) -> Path:
        """Where the code of an artifact is; a folder that was damaged is made again. No transaction should wait for it.

        Raises:
            UnknownName: (CTL-358) there is no such artifact.
            ArtifactRefused: (CTL-350 to CTL-359) it must not be unpacked.
        """
        target = self._root / sha256
        unpack(self._store, sha256, target)
        return target

    def tidy(self, metadata: Metadata) -> None:
        """Sweep; a database that is away is left for the next time."""
        try:
            self.sweep(metadata)
        except ExternalFailure as problem:
            _log.warning("artifacts are collected later: %s", problem)

    def sweep(self, metadata: Metadata, *, grace: dt.timedelta = GRACE) -> Collected:
        """Remove artifacts that no job needs, and what was unpacked of those that are gone."""
        with metadata.begin() as connection:
            now = metadata.now(connection)
        collected = collect(metadata, self._store, now=now, grace=grace)
        kept = self._store.kept()
        there = list(self._root.iterdir()) if self._root.is_dir() else []
        # Names that begin with a dot are being unpacked, or were by one that died: those are as old as a grace then.
        for path in there:
            is_left = path.name.startswith(".") and path.stat().st_mtime < (now - grace).timestamp()
            if is_left or not (path.name in kept or path.name.startswith(".")):
                shutil.rmtree(path, ignore_errors=True)
        return collected
