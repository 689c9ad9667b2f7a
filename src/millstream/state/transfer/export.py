"""Writes the state of one subtask, and the logs of the sources, into a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.page_file import PageFile, PageWriter, StoredPage
from millstream.checkpoint.savepoint import CopiedFile, safe_name, state_path
from millstream.checkpoint.savepoint_files import copy_folder
from millstream.contract.pages import PageStore
from millstream.state.layout import StateLayout
from millstream.state.pages import StepPages, entry_count


def export_pages(
    store: PageStore, layouts: Mapping[str, StateLayout], root: Path, *, level: int, subtask: int, attempt: str
) -> dict[str, PageFile]:
    """Write all pages of the keyed steps of a level, one file per step that has any; returns the files by uid.

    Call it behind the last operator of the level, when the pages are those of the epoch. The files are on disk when it
    returns. Pages pass through one at a time. A failed attempt leaves files that no record names.
    """
    written: dict[str, PageFile] = {}
    for uid, layout in sorted(layouts.items()):
        if layout.level != level or (layout.is_broadcast and subtask):
            continue
        file = _export_step(StepPages(store, uid), layout, root, state_path(uid, f"{level}-{subtask}-{attempt}"))
        if file is not None:
            written[uid] = file
            failpoint("savepoint_files")
    return written


def export_sources(folders: Mapping[str, Path], root: Path, *, attempt: str) -> dict[str, list[CopiedFile]]:
    """Copy the log folder of each source; on the driver, once the epoch is published."""
    return {
        step: copy_folder(folder, root, f"sources/{safe_name(step)}/{attempt}")
        for step, folder in sorted(folders.items())
    }


def _export_step(pages: StepPages, layout: StateLayout, root: Path, path: str) -> PageFile | None:
    places = list(pages)
    if not places:
        return None
    count = _counter(layout)
    writer = PageWriter(root, path)
    try:
        for place, due in places:
            content = pages.stored(place)
            times = (due.event, due.processing, due.expiry)
            division = pages.division(place.group)
            writer.add(StoredPage(place.group, place.page, division, times, content), count(content))
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _counter(layout: StateLayout) -> Callable[[bytes], int]:
    """How to count what a page holds without decoding it."""
    if layout.form == "entries":
        return entry_count
    schema = layout.column_schema
    return lambda content: pa.ipc.read_record_batch(pa.py_buffer(content), schema).num_rows
