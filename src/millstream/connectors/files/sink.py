"""The `files` sink: tasks write data files in place, unseen by readers that follow the lists; a list publishes them.

Whatever a committer changes in the directory, it changes under the directory's lock and with its token checked.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.checkpoint.stores.local import make_directory
from millstream.connectors.files.columns import is_plain
from millstream.connectors.files.encoders import compression_of
from millstream.connectors.files.fences import holding
from millstream.connectors.files.lists import FileList, list_folders, publish_list, published_list, tag_of
from millstream.connectors.files.partition_commit import PartitionCommits
from millstream.connectors.files.partitions import grouped
from millstream.connectors.files.published import PublishedLists
from millstream.connectors.files.results import check_alone, check_run, show_result
from millstream.connectors.files.rolling import RollingFiles
from millstream.connectors.files.staging import NO_EPOCH, delete_files, file_prefix, sweep
from millstream.connectors.files.store import LISTS, RUNS, local_path
from millstream.connectors.files.succession import check_beyond, take_over
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import ExternalFailure, Fenced, InvalidSchema, InvalidStep
from millstream.model.connector import NewerOutput, Options, replaces
from millstream.model.ids import Epoch
from millstream.model.schema import Schema
from millstream.model.time import duration_ms


class FilesWriter:
    """Writes the rows of one task to files with names of their own."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        check_sink(options, schema, task.step)
        self._partition_by: list[str] = options["partition_by"]
        root = local_path(options["path"])
        make_directory(root / LISTS)  # first, so that no source takes the directory for one of plain files
        tag = tag_of(job=task.job, lineage=task.lineage, step=task.step)
        prefix = file_prefix(epoch=task.epoch, tag=tag, task=task.task, attempt=task.attempt)
        inside = schema.select([name for name in schema.names if name not in self._partition_by])
        below = f"{RUNS}/{tag}" if replaces(options) else ""
        self._files = RollingFiles(root, prefix, inside.arrow, options, below=below)

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
        check_sink(options, context.schema, context.step)
        self._root = local_path(options["path"])
        self._context, self._replaces, self._is_checked = context, replaces(options), False
        if self._replaces:
            check_alone(self._root, context)
        self._encoding = {name: options[name] for name in ("format", "header", "delimiter")}
        self._schema = base64.b64encode(context.schema.arrow.serialize().to_pybytes()).decode("ascii")
        delay: str | None = options["partition_commit"]
        self._commits = None if delay is None else PartitionCommits(self._root, duration_ms(delay))

    def fence(self) -> None:
        """Raise the sink's fence to the token, durably."""
        with holding(self._root, self._context):
            pass

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Refuse rows that others published beyond the history. What is replaced at the end of the run is not in its way."""
        if not self._replaces:
            check_beyond(self._root, self._context, dict(history))

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Close the other lineages, and settle what they have published beyond the history."""
        with holding(self._root, self._context):
            take_over(self._root, self._context, dict(history), "keep" if self._replaces else newer)

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """All files of the epoch, in the order of partition, task and number."""
        files = sorted((file for message in messages for file in message.get("files", ())), key=_order)
        marks = [message["watermark"] for message in messages if "watermark" in message]
        return {
            "files": files,
            "rows": sum(file["rows"] for file in files),
            **({"watermark": marks[0]} if marks else {}),
            **({"ends_run": True} if any("ends_run" in message for message in messages) else {}),
        }

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Create the epoch's list, also of one without rows: the list is the mark that the epoch is published.

        1. Hold the directory and check the token.  2. Check that the data files are there, unless the epoch is published
        already.  3. Create the list, or compare it with the one there is.  4. Mark partitions that are complete with it.
        5. Behind the last epoch of a run that replaces, show its result.
        """
        context = self._context
        listing = FileList(
            job=context.job,
            lineage=context.lineage,
            step=context.step,
            epoch=epoch,
            schema=self._schema,
            encoding=self._encoding,
            files=tuple(transaction["files"]),
            token=context.token,
        )
        # Step 1. Hold the directory and check the token
        with holding(self._root, context):
            # Step 2. Check that the data files are there
            if published_list(self._root, listing) is None:
                self._check_run()
                self._check_present(epoch, listing.files)
            # Step 3. Create the list
            publish_list(self._root, listing, is_held_back=self._replaces)
            # Step 4. Mark partitions that are complete
            if self._commits is not None:
                self._commits.add(file["partition"] for file in listing.files)
                self._commits.mark(transaction["watermark"])
            # Step 5. Show the result of the run
            if "ends_run" in transaction:
                show_result(self._root, context, epoch, self._seen_lineages())

    def _seen_lineages(self) -> list[str]:
        """The lineages of this sink of which readers see lists now."""
        context = self._context
        lists = PublishedLists(self._root).new()
        return list({each.lineage: None for each in lists if (each.job, each.step) == (context.job, context.step)})

    def _check_run(self) -> None:
        """Once, before the first epoch that this owner publishes."""
        if not self._is_checked:
            check_run(self._root, self._context, replaces=self._replaces)
            self._is_checked = True

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
        """Delete files that no list will ever name.

        Once a later owner has fenced this one, it decides: the files may belong to an epoch that it publishes.
        """
        with contextlib.suppress(Fenced), holding(self._root, self._context):
            for message in messages:
                for file in message.get("files", ()):
                    (self._root / file["path"]).unlink(missing_ok=True)

    def recover(self, durable: Epoch | None) -> None:
        """Create the directory, and delete this sink's files that are in no list.

        Whatever is durable has been published before, so they are the leftovers of failed attempts and lost epochs.
        """
        context = self._context
        with holding(self._root, context):
            whose = {"job": context.job, "lineage": context.lineage, "step": context.step}
            sweep(self._root, {tag_of(**whose): NO_EPOCH})
            for folder in list_folders(self._root, **whose):
                delete_files(folder.glob(".[0-9]*"))
        if self._commits is not None:
            lists = PublishedLists(self._root).new()
            mine = [each for each in lists if (each.job, each.step) == (context.job, context.step)]
            self._commits.add(file["partition"] for each in mine for file in each.files)

    def close(self) -> None:
        """Nothing is open."""


def _order(file: dict[str, Any]) -> tuple[str, list[tuple[int, str]]]:
    folder, _, name = file["path"].rpartition("/")
    return folder, [(int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def check_sink(options: Options, schema: Schema, step: str) -> None:
    """Refuse options that do not fit each other or the rows."""
    compression_of(options)
    if local_path(options["path"]).is_file():
        msg = f"{options['path']!r} is a file"
        raise InvalidStep(msg, code="FILES-034", step=step, hint="pass a directory as path=")
    for name in options["partition_by"]:
        if name not in schema or not is_plain(schema[name].type):
            msg = f"cannot partition by {name!r}"
            known = [field.name for field in schema if is_plain(field.type)]
            raise InvalidStep(msg, code="FILES-032", step=step, known=known, hint="partition by a plain column")
    if options["partition_commit"] is not None and not options["partition_by"]:
        msg = "partition_commit= marks partitions, and there are none"
        raise InvalidStep(msg, code="FILES-032", step=step, hint="pass partition_by= too")
    if len(options["partition_by"]) == len(schema):
        msg = "partitioning by all columns leaves none to write"
        raise InvalidStep(msg, code="FILES-033", step=step, hint="leave a column out of partition_by=")
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if options["format"] == "csv" and nested:
        msg = "csv holds no nested columns"
        raise InvalidSchema(
            msg, code="FILES-023", step=step, found=", ".join(nested), hint="use format='json' or 'parquet'"
        )
