"""What a sink has shown, read back for those who look at it later, and removed file by file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.files.columns import fitted
from millstream.connectors.files.lists import FileList, PublishedFile, read_list
from millstream.connectors.files.published import PublishedLists
from millstream.connectors.files.reader import published_batches
from millstream.connectors.files.store import LISTS, local_path
from millstream.contract.sink import Removed
from millstream.errors import InvalidStep
from millstream.model.connector import Options, replaces
from millstream.model.schema import Schema
from millstream.records.codecs import Row, batch_to_rows


def read_back(options: Options, schema: Schema, *, job: str, step: str) -> Iterator[pa.RecordBatch]:
    """The rows of published epochs, oldest first; columns that older files lack are null."""
    for listing in _lists(options, job, step):
        for file in listing.published():
            for batch in published_batches(options["path"], listing, file):
                yield fitted(batch, schema, {})


def remove(options: Options, schema: Schema, chosen: Callable[[Row], bool], *, job: str, step: str) -> Removed:
    """Remove the files of which every row is chosen. Those of each lineage's newest epoch stay: a start publishes it again.

    A list is replaced by one that no longer names a file before the file goes, so nobody finds a name without its file.
    """
    if replaces(options):
        msg = "what a run has replaced is one result, of which no part is removed"
        raise InvalidStep(msg, code="DLQ-005", step=step, hint="let the next run replace it")
    removed = kept = 0
    lists = _lists(options, job, step)
    newest = {each.lineage: each.epoch for each in sorted(lists, key=lambda each: each.epoch)}
    for listing in lists:
        gone: list[PublishedFile] = []
        for file in listing.published():
            batches = [fitted(batch, schema, {}) for batch in published_batches(options["path"], listing, file)]
            wanted = sum(chosen(row) for batch in batches for row in batch_to_rows(batch))
            if wanted == file.rows and listing.epoch < newest[listing.lineage]:
                gone.append(file)
                removed += file.rows
            else:
                kept += wanted
        if gone:
            _replace(local_path(options["path"]), listing, {file.path for file in gone})
    return Removed(rows=removed, kept=kept, why="they lie in a file with others, or in the newest epoch")


def _lists(options: Options, job: str, step: str) -> list[FileList]:
    root = local_path(options["path"])
    if not (root / LISTS).is_dir():
        return []
    return [each for each in PublishedLists(root).new() if (each.job, each.step) == (job, step)]


def _replace(root: Path, listing: FileList, gone: set[str]) -> None:
    """Another who removes from the same list at the same time is seen by the list that is there then, and not undone."""
    assert listing.path is not None, "a list that was read has a place"
    store, name = LocalStore(listing.path.parent), listing.path.name
    is_replaced = False
    while not is_replaced:
        stored, now = listing.path.read_bytes(), read_list(listing.path)
        left = dataclasses.replace(now, files=tuple(file for file in now.files if file["path"] not in gone))
        is_replaced = store.swap(name, stored, json.dumps(left.to_json()).encode())
    for path in sorted(gone):
        (root / path).unlink(missing_ok=True)
