"""Notices that a list between others is gone: its rows would be missing without a word."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from millstream.connectors.files.lists import FileList, list_places
from millstream.errors import CheckpointRefused


def check_no_gap(root: Path, lists: Sequence[FileList]) -> None:
    """Refuse lists of a sink between which one is missing that was there when the later was created.

    Lists that are missing at the beginning are no gap: whoever needs old epochs no longer may delete them from there.
    """
    sinks: dict[tuple[str, str, str], list[FileList]] = defaultdict(list)
    for each in lists:
        sinks[each.job, each.lineage, each.step].append(each)
    for ours in sinks.values():
        for earlier, later in pairwise(sorted(ours, key=lambda each: each.epoch)):
            if later.follows and earlier.epoch < later.epoch - 1 and _is_gap(root, earlier, later):
                missing = str(list_places(root, later, later.epoch - 1)[0])
                msg = f"list {missing!r} is missing between others"
                raise CheckpointRefused(msg, code="FILES-012", step=later.step, hint="restore the list")


def _is_gap(root: Path, earlier: FileList, later: FileList) -> bool:
    """Whether it is still one: lists may have come or been withdrawn while the folder was listed."""
    is_there = any(path.exists() for path in list_places(root, later, later.epoch - 1))
    return not is_there and not earlier.is_withdrawn and not later.is_withdrawn
