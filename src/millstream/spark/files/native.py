"""Native savepoints: the files of Spark's checkpoint at one epoch, copied so that the copy stands alone.

1. Offsets N-1 and N, commit N.  2. What Spark knows about its operators, with paths that name the copy.  3. Per operator and
partition: one snapshot, and the changelogs after it. A running query may be copied: files of a committed epoch never change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.names import below
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import CommitEntry, OffsetEntry, SparkLogs, read_logs, retained_text, state_chains
from millstream.spark.files.operator_files import operator_ids, operator_records, relocated, schema_damages
from millstream.spark.files.state_files import Damage, hidden_checksum

_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NativeFile:
    """A file of the copy: its name inside the folder, its size and the SHA-256 of its content."""

    name: str
    size: int
    checksum: str


def copy_spark_checkpoint(source: Path, target: Path, epoch: int, *, query_id: str | None = None) -> list[NativeFile]:
    """Copy Spark's checkpoint as it was after an epoch; taking a savepoint and restoring one are the same copy.

    Every file is on disk when this returns. A damaged file is found while copying and refused, and a copy that fails
    leaves a target that no later copy accepts.

    Args:
        source: Spark's folder in a checkpoint or in a savepoint.
        target: a folder that does not exist yet, or is empty.
        epoch: an epoch that Spark has committed and still retains.
        query_id: a new id for Spark; without one the copy keeps the id, and Spark takes it for the same query.
    """
    _require_empty(target)
    logs = read_logs(source)
    files = _needed(logs, epoch)
    replaced = _rewritten(source, target)
    if query_id is not None:
        replaced[Path("metadata")] = json.dumps({"id": query_id}, separators=(",", ":")).encode()
    # A rewritten file leaves its hidden checksum behind: with a wrong one it could not be read.
    dropped = {hidden_checksum(name) for name in replaced}
    copied = [_written(target, name, content) for name, content in sorted(replaced.items())]
    copied += [_copied(source, target, name) for name in files if name not in replaced and name not in dropped]
    return copied


def _require_empty(target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        msg = "the folder to copy Spark's checkpoint to is not empty"
        raise CheckpointRefused(msg, code="CKPT-059", found=str(target), hint="name a new folder")


def _needed(logs: SparkLogs, epoch: int) -> list[Path]:
    """Names of all files of an epoch, in the order in which they are copied; anything damaged is refused."""
    offsets = [logs.offsets.get(number) for number in ((epoch - 1, epoch) if epoch else (epoch,))]
    commit = logs.commits.get(epoch)
    if commit is None or None in offsets:
        msg = f"Spark has not committed epoch {epoch}, or does not retain it any more"
        hint = "choose a retained epoch, or let the job commit its next one"
        raise CheckpointRefused(msg, code="CKPT-055", found=epoch, known=retained_text(logs), hint=hint)
    entries: list[OffsetEntry | CommitEntry] = [*(entry for entry in offsets if entry is not None), commit]
    damages = [Damage(file=entry.file, what=entry.what) for entry in entries if entry.what is not None]
    if logs.metadata is not None:
        damages.append(Damage(file=logs.folder / "metadata", what=logs.metadata))
    files = [logs.folder / "metadata", *(entry.file for entry in entries)]
    parts, in_state = _state(logs, epoch) if commit.what is None else ([], [])
    if damages or in_state:
        raise _damaged(logs.folder, [*damages, *in_state])
    return [name.relative_to(logs.folder) for file in [*files, *parts] for name in _with_checksums(file)]


def _state(logs: SparkLogs, epoch: int) -> tuple[list[Path], list[Damage]]:
    files: list[Path] = []
    damages: list[Damage] = []
    for operator in operator_ids(logs.folder):
        for record in operator_records(logs.folder, operator):
            files += [record.file, *record.schemas]
            damages += schema_damages(record)
            if record.what is not None:
                damages.append(Damage(file=record.file, what=record.what))
    for chain in state_chains(logs, epoch):
        files += chain.files
        damages += chain.damages
    return list(dict.fromkeys(files)), damages


def _damaged(folder: Path, damages: list[Damage]) -> CheckpointRefused:
    listed = "; ".join(f"{damage.file.relative_to(folder)} {damage.what}" for damage in damages)
    msg = f"Spark's checkpoint is damaged and is not copied: {listed}"
    return CheckpointRefused(msg, code="CKPT-059", hint="run `millstream doctor` on it")


def _with_checksums(file: Path) -> Iterator[Path]:
    """A file, Spark's own checksum file, and the hidden ones of the file system."""
    beside = file.with_name(f"{file.name}.crc")
    for part in (file, hidden_checksum(file), beside, hidden_checksum(beside)):
        if part.exists():
            yield part


def _rewritten(source: Path, target: Path) -> dict[Path, bytes]:
    """Operator metadata that names the schema files of the copy; without this the copy reads those of the original."""
    return {
        record.file.relative_to(source): relocated(record.file.read_text(), target).encode()
        for operator in operator_ids(source)
        for record in operator_records(source, operator)
    }


def _copied(source: Path, target: Path, name: Path) -> NativeFile:
    with below(source, name.as_posix(), of="a file of Spark's checkpoint", code="CKPT-059").open("rb") as content:
        return _stored(target, name, content)


def _written(target: Path, name: Path, content: bytes) -> NativeFile:
    return _stored(target, name, io.BytesIO(content))


def _stored(target: Path, name: Path, content: BinaryIO) -> NativeFile:
    file = target / name
    make_directory(file.parent)
    checksum, size = hashlib.sha256(), 0
    with file.open("xb") as opened:
        while part := content.read(_CHUNK):
            opened.write(part)
            checksum.update(part)
            size += len(part)
        opened.flush()
        os.fsync(opened.fileno())
    sync_directory(file.parent)
    failpoint("savepoint_files")
    return NativeFile(name=name.as_posix(), size=size, checksum=checksum.hexdigest())
