"""The open data files of one task: one per partition, a new one when a limit is reached, and not too many at a time."""

from __future__ import annotations

import dataclasses
import posixpath
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.connectors.files.encoders import Encoder, extension_of, open_encoder
from millstream.connectors.files.partitions import Partition, folder_of
from millstream.connectors.files.store import checksum
from millstream.model.connector import Options

_OPEN_FILES = 64
_FLUSH_ROWS = 131_072
_FLUSH_BYTES = 32 << 20


@dataclasses.dataclass(slots=True)
class _OpenFile:
    path: str
    partition: Partition
    encoder: Encoder
    waiting: list[pa.RecordBatch] = dataclasses.field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0
    rows: int = 0

    def flush(self, schema: pa.Schema) -> None:
        """Write what waits at once: each write is a row group, and small ones make slow files."""
        if self.waiting:
            self.encoder.write(pa.Table.from_batches(self.waiting, schema))
            self.rows += self.waiting_rows
            self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


class RollingFiles:
    """Writes batches of partitions to numbered files below a directory."""

    def __init__(self, root: Path, prefix: str, schema: pa.Schema, options: Options, *, below: str = "") -> None:
        """Files of `root`, in the folder `below` it; their names begin with `prefix`."""
        self._root, self._prefix, self._schema, self._options = root, prefix, schema, options
        self._below = below
        self._max_rows: int | None = options["max_rows_per_file"]
        self._max_bytes: int | None = options["max_bytes_per_file"]
        # With many partitions open, each may hold back only its share.
        share = _FLUSH_BYTES // (8 if options["partition_by"] else 1)
        self._flush_bytes = min(share, self._max_bytes or share)
        self._open: dict[str, _OpenFile] = {}
        self._written: list[dict[str, Any]] = []
        self._created: list[Path] = []

    def write(self, partition: Partition, batch: pa.RecordBatch) -> None:
        """Append rows, rolling to a new file at the limits."""
        folder = posixpath.join(self._below, folder_of(partition))
        while batch.num_rows:
            file = self._file(folder, partition)
            room = batch.num_rows
            if self._max_rows is not None:
                room = min(room, self._max_rows - file.rows - file.waiting_rows)
            piece, batch = batch.slice(0, room), batch.slice(room)
            file.waiting.append(piece)
            file.waiting_rows += piece.num_rows
            file.waiting_bytes += piece.nbytes
            if file.waiting_rows >= _FLUSH_ROWS or file.waiting_bytes >= self._flush_bytes:
                file.flush(self._schema)
            if self._is_full(file):
                self._close(folder)

    def _is_full(self, file: _OpenFile) -> bool:
        if self._max_rows is not None and file.rows + file.waiting_rows >= self._max_rows:
            return True
        return self._max_bytes is not None and file.encoder.tell() >= self._max_bytes

    def _file(self, folder: str, partition: Partition) -> _OpenFile:
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                self._close(next(iter(self._open)))
            name = f"{self._prefix}-{len(self._created)}.{extension_of(self._options)}"
            path = posixpath.join(folder, name)
            make_directory(self._root / folder)
            self._created.append(self._root / path)
            file = _OpenFile(path, partition, open_encoder(self._root / path, self._schema, self._options))
        self._open[folder] = file  # the longest unused is first
        return file

    def _close(self, folder: str) -> None:
        file = self._open.pop(folder)
        file.flush(self._schema)
        file.encoder.close()
        content = {"rows": file.rows, **checksum(self._root / file.path)}
        self._written.append({"path": file.path, **content, "partition": file.partition})

    def finish(self) -> list[dict[str, Any]]:
        """Close all files and make them and their names durable."""
        for folder in list(self._open):
            self._close(folder)
        for directory in {path.parent for path in self._created}:
            sync_directory(directory)
        return self._written

    def abort(self) -> None:
        """Delete every file created."""
        self._open.clear()
        for path in self._created:
            path.unlink(missing_ok=True)
