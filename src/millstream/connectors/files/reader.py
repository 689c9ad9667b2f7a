"""Reads what `files` sinks have published in a directory, and nothing else that lies there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from millstream.connectors.files.gaps import check_no_gap
from millstream.connectors.files.lists import FileList, PublishedFile, check_published
from millstream.connectors.files.published import PublishedLists
from millstream.connectors.files.results import shown_results
from millstream.connectors.files.source import FilesReader
from millstream.connectors.files.store import LISTS, local_path
from millstream.contract.source import BadRecord
from millstream.errors import CheckpointRefused, ExternalFailure


def published_files(path: str | Path, *, step: str | None = None, lineage: str | None = None) -> list[PublishedFile]:
    """The data files of published epochs, oldest first.

    Args:
        path: the directory of one or several sinks.
        step: only files of the sink with this id.
        lineage: only files of this lineage.
    """
    return [file for each in _lists(path, step, lineage) for file in each.published()]


def read_files(path: str | Path, *, step: str | None = None, lineage: str | None = None) -> pa.Table:
    """The rows of published epochs, oldest first; without columns when nothing is published.

    Of a sink with `write="replace"` they are the result of one run, all of it, also when another one takes its place meanwhile.

    Args:
        path: the directory of one or several sinks.
        step: only rows of the sink with this id.
        lineage: only rows of this lineage.
    """
    root = local_path(str(path))
    while True:
        results = shown_results(root)
        try:
            read = [_published_table(str(path), each) for each in _lists(path, step, lineage) if each.files]
        except (ExternalFailure, CheckpointRefused):
            if shown_results(root) == results:
                raise
            continue  # what was read has been replaced twice, and its files are gone
        tables = [table for table in read if table is not None]
        if len(tables) == len(read) or shown_results(root) == results:
            return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _lists(path: str | Path, step: str | None, lineage: str | None) -> list[FileList]:
    root = local_path(str(path))
    if not (root / LISTS).is_dir():
        msg = f"no sink has written to {str(root)!r}"
        raise ExternalFailure(msg, code="FILES-040", hint="correct the path, or read plain files with pyarrow")
    published = PublishedLists(root).new()
    check_no_gap(root, published)
    return [each for each in published if step in {None, each.step} and lineage in {None, each.lineage}]


def _published_table(path: str, listing: FileList) -> pa.Table | None:
    """The rows of one list, or `None` when it was withdrawn before all of them were read."""
    try:
        return _table(path, listing)
    except ExternalFailure:
        if listing.is_withdrawn:
            return None
        raise


def _table(path: str, listing: FileList) -> pa.Table:
    batches = [batch for file in listing.published() for batch in published_batches(path, listing, file)]
    return pa.Table.from_batches(batches, listing.columns.arrow)


def published_batches(path: str, listing: FileList, file: PublishedFile) -> list[pa.RecordBatch]:
    """The rows of one data file that a list names."""
    root, reader = local_path(path), FilesReader({"path": path, **listing.encoding}, listing.columns)
    if not (root / file.path).exists():
        msg = f"published file {file.path!r} is missing"
        raise ExternalFailure(msg, code="FILES-042", hint="restore the file")
    info = (root / file.path).stat()
    check_published(file, "bytes", found=info.st_size, known=file.bytes)
    batches = []
    body = {"root": str(root), "path": file.path, "size": info.st_size, "mtime_ns": info.st_mtime_ns}
    for part in reader.read({**body, "format": listing.encoding["format"], "part": [0, 0]}):
        if isinstance(part, BadRecord):
            msg = f"published file {file.path!r} holds a record that cannot be read"
            raise ExternalFailure(msg, code="FILES-041", found=part.error, hint="restore the file")
        batches.append(part)
    check_published(file, "rows", found=sum(batch.num_rows for batch in batches), known=file.rows)
    return batches
