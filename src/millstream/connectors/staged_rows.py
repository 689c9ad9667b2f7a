"""Rows that wait for their epoch in the checkpoint: one Arrow file for each attempt of a task, in the folder of its sink.

A file's name begins with epoch and token: an owner that was replaced does not take the files of its successor for leftovers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.names import below
from millstream.checkpoint.sealed import digest_of
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.connectors.row_digest import RowsDigest
from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused

_NAME = re.compile(r"(\d{8,})-(\d+)-[A-Za-z0-9_.-]+\.arrow")


class StagedRows:
    """The file of one attempt while it is written."""

    def __init__(self, task: SinkTask, schema: pa.Schema) -> None:
        attempt = re.sub(r"[^A-Za-z0-9_.]", "_", task.attempt)
        self._path = Path(task.staging) / f"{task.epoch:08d}-{task.token}-{task.task}-{attempt}.arrow"
        make_directory(self._path.parent)
        self._task, self._digest = task.task, RowsDigest()
        self._file = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._digest.add(batch)
        self._writer.write_batch(batch)

    def finish(self) -> dict[str, Any]:
        """Make the file durable and describe it."""
        self._close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        sync_directory(self._path.parent)
        return {"task": self._task, "file": self._path.name, "rows": self._digest.rows, "digest": self._digest.text()}

    def abort(self) -> None:
        """Remove the file."""
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        self._writer.close()
        self._file.close()


def staged_epoch(messages: Sequence[Any]) -> dict[str, Any]:
    """The files of an epoch in the order of tasks. The digest leaves attempts out: a replay gives the same rows under others."""
    files = sorted(messages, key=lambda file: [int(part) for part in file["task"].split("-")])
    content = [[file["task"], file["rows"], file["digest"]] for file in files]
    return {"rows": sum(file["rows"] for file in files), "digest": digest_of(content), "files": files}


def staged_batches(folder: str, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, cut into batches of a size: a replay cuts them in the same places, however they were written."""
    with pa.memory_map(str(staged_path(folder, file["file"]))) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
        for start in range(0, table.num_rows, size):
            yield table.slice(start, size).combine_chunks().to_batches()[0]


def check_staged(folder: str, files: Iterable[Any], *, epoch: int, step: str) -> None:
    """Refuse to publish unless every file is as its writer left it.

    Raises:
        CheckpointRefused: (SINK-010) one is missing or holds other rows.
    """
    for file in files:
        if (found := _wrong_with(staged_path(folder, file["file"]), file)) is not None:
            msg = f"the staged rows of epoch {epoch} are not those that were written"
            known = f"{file['rows']} rows in {file['file']!r}"
            hint = f"restore the file in {folder!r}, or restore the job from a savepoint"
            raise CheckpointRefused(msg, code="SINK-010", step=step, found=found, known=known, hint=hint)


def _wrong_with(path: Path, file: Any) -> str | None:
    if not path.is_file():
        return "no such file"
    digest = RowsDigest()
    try:
        with pa.memory_map(str(path)) as mapped:
            reader = pa.ipc.open_file(mapped)
            for number in range(reader.num_record_batches):
                digest.add(reader.get_batch(number))
    except (pa.ArrowInvalid, OSError) as problem:
        return f"a file that cannot be read: {problem}"
    return None if digest.text() == file["digest"] else "other rows"


def remove_staged(folder: str, names: Iterable[str]) -> None:
    """Remove files; those that are gone already do not matter."""
    paths = [staged_path(folder, name) for name in names]
    for path in paths:
        path.unlink(missing_ok=True)
    if paths and Path(folder).is_dir():
        sync_directory(Path(folder))


def staged_leftovers(folder: str, *, token: int) -> list[str]:
    """Files of this owner and earlier ones. When everything durable is published, nobody needs them any more."""
    root = Path(folder)
    found = [_NAME.fullmatch(path.name) for path in root.iterdir()] if root.is_dir() else []
    return sorted(match[0] for match in found if match is not None and int(match[2]) <= token)


def staged_path(folder: str, name: str) -> Path:
    """Where a file lies that a manifest names; a name that leads elsewhere is refused."""
    return below(Path(folder), name, of="staged rows")
