"""The names of data files, and the removal of those that no list will ever name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from millstream.checkpoint.stores.local import sync_directory
from millstream.connectors.files.published import every_list

_NAME = re.compile(r"part-(\d{8,})-([0-9a-f]{10})-.*")

NO_EPOCH = -1
"""Before the first epoch of every lineage."""


def file_prefix(*, epoch: int, tag: str, task: str, attempt: str) -> str:
    """How the names of one attempt's files begin."""
    return f"part-{epoch:08d}-{tag}-{task}-{re.sub(r'[^A-Za-z0-9_.]', '_', attempt)}"


def sweep(root: Path, after: Mapping[str, int]) -> None:
    """Delete data files that are in no list: those with one of the tags, of epochs after the one given for it."""
    leftovers = [path for path in root.rglob("part-*") if _is_swept(path.name, after)]
    if leftovers:
        listed = {root / file.path for each in every_list(root) for file in each.published()}
        delete_files(path for path in leftovers if path not in listed)


def _is_swept(name: str, after: Mapping[str, int]) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[2] in after and int(match[1]) > after[match[2]]


def delete_files(paths: Iterable[Path]) -> None:
    """Delete files durably; those that are gone already do not matter."""
    folders = set()
    for path in paths:
        path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in folders:
        sync_directory(folder)
