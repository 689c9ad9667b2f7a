"""Reads a savepoint into the state of one subtask, at any parallelism, in the first epoch of a new lineage.

Pages are copied as they are unless the layout of their step changed. State commits with the epoch, so a replayed epoch
loads again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.checkpoint.page_file import PageFile, PageReader, StoredPage
from millstream.checkpoint.savepoint import Savepoint
from millstream.checkpoint.savepoint_files import copy_back
from millstream.contract.pages import PageStore
from millstream.errors import CheckpointRefused
from millstream.state.layout import StateLayout
from millstream.state.pages import Due, PageId, StepPages
from millstream.state.transfer.evolve import Evolve, Slots, evolution


class Loaded(NamedTuple):
    """How much of a step's state a subtask took over."""

    pages: int
    entries: int
    """As stored: before slots were removed."""


def owned_groups(subtask: int, parallelism: int, key_groups: int) -> range:
    """The key groups of a subtask."""
    return range(subtask * key_groups // parallelism, (subtask + 1) * key_groups // parallelism)


def load_level(
    root: Path,
    savepoint: Savepoint,
    store: PageStore,
    layouts: Mapping[str, StateLayout],
    *,
    level: int,
    groups: range,
    now: int,
    slots: Callable[[str], Slots] = lambda _: {},
) -> dict[str, Loaded]:
    """Load the state of every keyed step of a level; steps that the savepoint does not know start empty.

    Args:
        root: the savepoint's directory.
        savepoint: its record.
        store: the subtask's pages; what it holds of these steps is replaced.
        layouts: the layouts of the steps as they are now, by uid.
        level: whose steps to load.
        groups: the key groups of the subtask.
        now: the clock of the epoch.
        slots: by uid, the types and migrations of a step's slots; asked only where the layout changed.
    """
    loaded: dict[str, Loaded] = {}
    for uid, layout in sorted(layouts.items()):
        if layout.level == level and uid in savepoint.layouts:
            stored = stored_layout(savepoint, uid)
            evolve = evolution(stored, layout, slots, now=now)
            loaded[uid] = load_pages(
                root,
                savepoint.state.get(uid, []),
                StepPages(store, uid),
                range(1) if layout.is_broadcast else groups,
                evolve,
            )
    return loaded


def load_pages(
    root: Path, files: list[PageFile], pages: StepPages, groups: range, evolve: Evolve | None = None
) -> Loaded:
    """Replace a step's pages by those of its key groups in the savepoint; one directory is written at the end."""
    pages.clear()
    read = entries = 0
    for file in files:
        if file.groups[1] < groups.start or file.groups[0] >= groups.stop:
            continue
        with PageReader(root, file) as reader:
            for page in reader.pages(groups):
                _place(pages, page, evolve)
                read += 1
            entries += sum(group.entries for number, group in reader.index.items() if number in groups)
    pages.flush()
    return Loaded(read, entries)


def load_sources(root: Path, savepoint: Savepoint, folders: Mapping[str, Path]) -> None:
    """Give the sources their logs back, before they are opened; sources that the savepoint does not know have none."""
    for step, folder in folders.items():
        copy_back(root, savepoint.sources.get(step, []), folder)


def stored_layout(savepoint: Savepoint, uid: str) -> StateLayout:
    """How a step's state is laid out in a savepoint."""
    if uid not in savepoint.layouts:
        msg = "the savepoint has no state of this step"
        raise CheckpointRefused(
            msg, code="SAVE-010", step=uid, known=savepoint.layouts, hint="name a step of the savepoint"
        )
    return msgspec.convert(savepoint.layouts[uid], StateLayout)


def _place(pages: StepPages, page: StoredPage, evolve: Evolve | None) -> None:
    content: bytes | None = page.content
    due = Due(*page.due)
    if evolve is not None:
        content, due = evolve(page.content, due)
    if content is not None:
        pages.restore(PageId(page.group, page.page), content, due, division=page.division)
