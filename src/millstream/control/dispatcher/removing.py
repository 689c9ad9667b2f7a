"""Checkpoints are removed in two steps: set aside in the act that says so, removed when it is committed, put back if it is not.

A process that dies in between leaves them set aside. What was meant stands in the index of epochs: the driver of a run that has
to find a checkpoint puts it back.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from millstream.checkpoint.aside import ASIDE, put_back

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def removing() -> Iterator[list[Path]]:
    """Around an act, which adds to the list what it has set aside. The removal itself keeps no transaction open."""
    aside: list[Path] = []
    try:
        yield aside
    except BaseException:
        for each in aside:
            put_back(each)
        raise
    for each in aside:
        _remove(each.parent)


def _remove(path: Path) -> None:
    """All that was set aside there, by processes that died, too."""
    try:
        for each in path.glob(f"{ASIDE}*"):
            shutil.rmtree(each)
        if not any(path.iterdir()):
            path.rmdir()
    except OSError as problem:
        _log.warning("what is left of a checkpoint is removed with the next one of its place: %s", problem)
