"""Messages that wait for their epoch: one Arrow file for each attempt of a task, in the sink's folder of the checkpoint.

A file's name begins with epoch and token: an owner that was replaced does not take the files of its successor for leftovers.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.connectors.staged_rows import staged_path
from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused

_DIGEST_BYTES = 16


class ContentDigest:
    """Says whether two attempts staged the same messages, however each cut them into batches."""

    def __init__(self) -> None:
        self._hashes: dict[str, Any] = {}
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in more messages."""
        self._rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for place, content in enumerate(_contents(column)):
                part = f"{name}/{place}"
                if part not in self._hashes:
                    self._hashes[part] = hashlib.blake2b(digest_size=_DIGEST_BYTES)
                self._hashes[part].update(content)

    def text(self) -> str:
        """The digest of all that came in."""
        whole = hashlib.blake2b(str(self._rows).encode(), digest_size=_DIGEST_BYTES)
        for part, each in sorted(self._hashes.items()):
            whole.update(part.encode() + each.digest())
        return whole.hexdigest()


def _contents(column: pa.Array) -> Iterator[Any]:
    """The content of a column in pieces, each of which may be joined with that of the batch before."""
    if pa.types.is_map(column.type):
        yield np.diff(column.offsets.to_numpy()).astype("<i4")
        yield from _contents(column.keys.slice(column.offsets[0].as_py(), _inside(column)))
        yield from _contents(column.items.slice(column.offsets[0].as_py(), _inside(column)))
        return
    if pa.types.is_primitive(column.type):
        yield np.ascontiguousarray(column.fill_null(0).to_numpy(zero_copy_only=False))
        return
    yield column.is_null().to_numpy(zero_copy_only=False)
    # What lies under a null is anything.
    filled = column.cast(pa.binary()).fill_null(b"")
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled) + 1]
    yield np.diff(offsets).astype("<i4")
    data = filled.buffers()[2]
    yield memoryview(data)[offsets[0] : offsets[-1]] if data is not None and len(filled) else b""


def _inside(column: pa.MapArray) -> int:
    return int(column.offsets[-1].as_py() - column.offsets[0].as_py())


def named_places(messages: pa.RecordBatch) -> dict[str | None, int]:
    """The topics that messages name, `None` for that of their sink, with the largest partition named there, -1 for none.

    Nothing where they name neither.
    """
    names = messages.schema.names
    topics = messages.column("topic") if "topic" in names else pa.nulls(messages.num_rows, pa.string())
    if "partition" not in names:
        return dict.fromkeys(topics.unique().to_pylist(), -1) if "topic" in names else {}
    places = pa.table({"topic": topics, "partition": messages.column("partition")})
    largest = places.group_by("topic").aggregate([("partition", "max")])
    return dict(zip(largest["topic"].to_pylist(), largest["partition_max"].to_pylist(), strict=True))


class StagedMessages:
    """The file of one attempt while it is written."""

    def __init__(self, task: SinkTask, schema: pa.Schema) -> None:
        attempt = re.sub(r"[^A-Za-z0-9_.]", "_", task.attempt)
        name = f"{task.epoch:08d}-{task.token}-{task.task}-{attempt}.arrow"
        self._path = Path(task.staging) / name
        make_directory(self._path.parent)
        self._task, self._rows, self._digest = task.task, 0, ContentDigest()
        self._places: dict[str | None, int] = {}
        self._file = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append messages."""
        self._rows += batch.num_rows
        self._digest.add(batch)
        for topic, partition in named_places(batch).items():
            self._places[topic] = max(partition, self._places.get(topic, -1))
        self._writer.write_batch(batch)

    def finish(self) -> dict[str, Any]:
        """Make the file durable and describe it; `places` are the topics and partitions that its rows name."""
        self._close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        sync_directory(self._path.parent)
        staged = {"file": self._path.name, "rows": self._rows, "bytes": size, "digest": self._digest.text()}
        return {"task": self._task, **staged, "places": [list(place) for place in self._places.items()]}

    def abort(self) -> None:
        """Remove the file."""
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        self._writer.close()
        self._file.close()


def read_staged(folder: str, message: Any) -> Iterator[pa.RecordBatch]:
    """The messages of a file, batch by batch."""
    with pa.memory_map(str(staged_path(folder, message["file"]))) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def check_staged(folder: str, messages: Iterable[Any], *, epoch: int, step: str) -> None:
    """Refuse to publish unless every file is as its writer left it.

    Raises:
        CheckpointRefused: (KAFKA-022) one is missing or has other content.
    """
    for message in messages:
        found = _wrong_with(staged_path(folder, message["file"]), message)
        if found is not None:
            msg = f"the staged messages of epoch {epoch} are not those that were written"
            known = f"{message['rows']} messages in {message['file']!r}"
            hint = f"restore the file in {folder!r}, or restore the job from a savepoint"
            raise CheckpointRefused(msg, code="KAFKA-022", step=step, found=found, known=known, hint=hint)


def _wrong_with(path: Path, message: Any) -> str | None:
    if not path.is_file():
        return "no such file"
    if (size := path.stat().st_size) != message["bytes"]:
        return f"{size} bytes instead of {message['bytes']}"
    digest = ContentDigest()
    try:
        for batch in read_staged(str(path.parent), message):
            digest.add(batch)
    except pa.ArrowInvalid as problem:
        return f"a file that cannot be read: {problem}"
    return None if digest.text() == message["digest"] else "other content"
