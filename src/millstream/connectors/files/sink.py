"""The `files` sink: tasks write data files in place, unseen by readers that follow the lists; a list publishes them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.stores.local import sync_directory
from millstream.connectors.files.columns import is_plain
from millstream.connectors.files.encoders import compression_of
from millstream.connectors.files.lists import FileList, PublishedLists, list_folder, publish_list
from millstream.connectors.files.partitions import grouped
from millstream.connectors.files.rolling import RollingFiles
from millstream.connectors.files.store import LISTS, local_path, make_directory
from millstream.errors import ExternalFailure, InvalidSchema, InvalidStep
from millstream.model.connector import Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema
from millstream.runtime.connector import SinkContext, SinkTask

_NAME = re.compile(r"part-(\d{8,})-([0-9a-f]{10})-.*")


class FilesWriter:
    """Writes the rows of one task to files with names of their own."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        _check(options, schema, task.step)
        self._partition_by: list[str] = options["partition_by"]
        root = local_path(options["path"])
        make_directory(root / LISTS)  # first, so that no source takes the directory for one of plain files
        attempt = re.sub(r"[^A-Za-z0-9_.]", "_", task.attempt)
        prefix = f"part-{task.epoch:08d}-{_tag(task)}-{task.task}-{attempt}"
        inside = schema.select([name for name in schema.names if name not in self._partition_by])
        self._files = RollingFiles(root, prefix, inside.arrow, options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch to the files of its partitions."""
        if not batch.num_rows:
            return
        if not self._partition_by:
            self._files.write({}, batch)
            return
        for partition, rows in grouped(batch, self._partition_by):
            self._files.write(partition, rows)

    def finish(self) -> Any:
        """Make the files durable and name them."""
        written = self._files.finish()
        return {"files": written, "rows": sum(file["rows"] for file in written)} if written else None

    def abort(self) -> None:
        """Remove the files."""
        self._files.abort()


class FilesCommitter:
    """Publishes an epoch by creating its list."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        _check(options, context.schema, context.step)
        self._root = local_path(options["path"])
        self._context = context
        self._encoding = {name: options[name] for name in ("format", "header", "delimiter")}
        self._schema = base64.b64encode(context.schema.arrow.serialize().to_pybytes()).decode("ascii")

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """All files of the epoch, in the order of partition, task and number."""
        found = sorted((file for message in messages for file in message["files"]), key=_order)
        return {"files": found, "rows": sum(file["rows"] for file in found)}

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Create the epoch's list; an epoch without rows has none."""
        files = transaction["files"]
        if not files:
            return
        context = self._context
        listing = FileList(
            job=context.job,
            lineage=context.lineage,
            step=context.step,
            epoch=epoch,
            schema=self._schema,
            encoding=self._encoding,
            files=tuple(files),
        )
        self._check_present(epoch, files)
        publish_list(self._root, listing)

    def _check_present(self, epoch: Epoch, files: Sequence[dict[str, Any]]) -> None:
        for file in files:
            path = self._root / file["path"]
            size = path.stat().st_size if path.exists() else None
            if size != file["bytes"]:
                msg = f"data file {str(path)!r} of epoch {epoch} is missing or has another size"
                raise ExternalFailure(
                    msg,
                    code="FILES-031",
                    step=self._context.step,
                    found="nothing" if size is None else f"{size} bytes",
                    known=f"{file['bytes']} bytes",
                    hint="restore the file; the epoch cannot be published without it",
                )

    def discard(self, messages: Sequence[Any]) -> None:
        """Delete files that no list will ever name."""
        for message in messages:
            for file in message["files"]:
                (self._root / file["path"]).unlink(missing_ok=True)

    def recover(self, durable: Epoch | None) -> None:
        """Create the directory, and delete this sink's files that are in no list.

        Whatever is durable has been published before, so they are the leftovers of failed attempts and lost epochs.
        """
        make_directory(self._root / LISTS)
        mine = _tag(self._context)
        leftovers = [
            path
            for path in self._root.rglob("part-*")
            if (found := _NAME.fullmatch(path.name)) is not None and found[2] == mine
        ]
        if leftovers:
            listed = {self._root / file.path for each in PublishedLists(self._root).new() for file in each.published()}
            _delete([path for path in leftovers if path not in listed])
        folder = list_folder(self._root, step=self._context.step, lineage=self._context.lineage)
        _delete(list(folder.glob(".*")))

    def close(self) -> None:
        """Nothing is open."""


def _tag(whose: SinkTask | SinkContext) -> str:
    """Tells the files of one sink of one lineage from those of others in the same directory."""
    return hashlib.sha256(f"{whose.job}/{whose.lineage}/{whose.step}".encode()).hexdigest()[:10]


def _order(file: dict[str, Any]) -> tuple[str, list[tuple[int, str]]]:
    folder, _, name = file["path"].rpartition("/")
    return folder, [(int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_directory(folder)


def _check(options: Options, schema: Schema, step: str) -> None:
    compression_of(options)
    if local_path(options["path"]).is_file():
        msg = f"{options['path']!r} is a file"
        raise InvalidStep(msg, code="FILES-034", step=step, hint="pass a directory as path=")
    for name in options["partition_by"]:
        if name not in schema or not is_plain(schema[name].type):
            msg = f"cannot partition by {name!r}"
            known = [field.name for field in schema if is_plain(field.type)]
            raise InvalidStep(msg, code="FILES-032", step=step, known=known, hint="partition by a plain column")
    if len(options["partition_by"]) == len(schema):
        msg = "partitioning by all columns leaves none to write"
        raise InvalidStep(msg, code="FILES-033", step=step, hint="leave a column out of partition_by=")
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if options["format"] == "csv" and nested:
        msg = "csv holds no nested columns"
        raise InvalidSchema(
            msg, code="FILES-023", step=step, found=", ".join(nested), hint="use format='json' or 'parquet'"
        )
