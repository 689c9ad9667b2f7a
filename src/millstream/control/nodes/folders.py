"""Folders of runs that ended: kept for their logs for a while, then removed, a few at a time."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from pathlib import Path

from millstream.contract.run_folder import BadRunFolder, DriverFolder
from millstream.control.drivers.processes import is_alive

KEPT_SECONDS = 7 * 86_400.0
KEPT_FOLDERS = 500
"""The newest, as far as they are younger than that."""
_YOUNG_SECONDS = 3600.0
"""One that was used so lately stays in any case: its driver may be starting, its logs being read."""
_AT_ONCE = 100
_log = logging.getLogger(__name__)


def clear_folders(runs: Path, owned: Collection[str], *, now: float) -> int:
    """Remove folders of claims that are over; how many went.

    Args:
        runs: where the folders of this node are.
        owned: names of those that the node answers for, `<run>.<token>`.
        now: seconds since 1970.
    """
    found = sorted(((_used(path), path) for path in runs.iterdir() if path.is_dir()), reverse=True)
    over = [
        path
        for rank, (used, path) in enumerate(found)
        if path.name not in owned and now - used > (_YOUNG_SECONDS if rank >= KEPT_FOLDERS else KEPT_SECONDS)
    ]
    gone = 0
    for path in reversed(over[-_AT_ONCE:]):
        if not _is_in_use(path):
            shutil.rmtree(path, ignore_errors=True)
            gone += 1
    if gone:
        _log.info("%d folders of runs that ended were removed", gone)
    return gone


def _used(path: Path) -> float:
    """When something in it was last written: a driver that runs for weeks writes its journal and its log."""
    folder = DriverFolder(path)
    places = (folder.spec, folder.journal, folder.result, folder.log)
    return max((each.stat().st_mtime for each in places if each.exists()), default=path.stat().st_mtime)


def _is_in_use(path: Path) -> bool:
    try:
        identity = DriverFolder(path).read_identity()
    except BadRunFolder:
        return False
    return identity is not None and is_alive(identity)
