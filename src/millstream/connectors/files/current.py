"""The result that counts, for readers that take files as they lie: the link `current` leads to its data files and no others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.connectors.files.lists import FileList, tag_of
from millstream.connectors.files.store import RUNS
from millstream.contract.sink import SinkContext
from millstream.errors import InvalidStep

CURRENT = "current"


def check_link(root: Path, context: SinkContext) -> None:
    """Refuse a directory in which something else bears the name of the link."""
    path = root / CURRENT
    if path.exists() and not path.is_symlink():
        msg = f"{str(path)!r} is no link of ours, and has the name of the one that leads to the result that counts"
        raise InvalidStep(msg, code="FILES-034", step=context.step, hint="rename it, or pass another path=")


def gather_files(root: Path, context: SinkContext, lists: Sequence[FileList]) -> None:
    """Bring what earlier lineages of the run have written into the folder of this one, as further names of the same files."""
    folder = root / _folder(context)
    make_directory(folder)
    changed = {folder}
    for listing in lists:
        for file in listing.files:
            path = folder / _inside(file["path"])
            if not path.exists():
                make_directory(path.parent)
                os.link(root / file["path"], path)
                changed.add(path.parent)
    for each in changed:
        sync_directory(each)


def point_to_result(root: Path, context: SinkContext) -> None:
    """Let the link lead to the files of this run, in one step."""
    link, target = root / CURRENT, _folder(context)
    if link.is_symlink() and str(link.readlink()) == target:
        return
    temporary = root / f".{CURRENT}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target, target_is_directory=True)
    temporary.replace(link)
    sync_directory(root)


def _folder(context: SinkContext) -> str:
    return f"{RUNS}/{tag_of(job=context.job, lineage=context.lineage, step=context.step)}"


def _inside(path: str) -> str:
    """Where a data file lies in the folder of its lineage, or in the directory of a sink that adds."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[2:] if parts[0] == RUNS else parts)
