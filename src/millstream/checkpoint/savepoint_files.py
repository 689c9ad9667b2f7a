"""The files of a savepoint: copying folders into one and back, and verifying that every file is what was written."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.names import below
from millstream.checkpoint.page_file import PageFile, PageReader, damaged_file, missing_file
from millstream.checkpoint.savepoint import CopiedFile, Savepoint, read_savepoint
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.errors import CheckpointRefused

_CHUNK = 1 << 20


class Verified(NamedTuple):
    """A savepoint whose every file is sound."""

    savepoint: Savepoint
    files: int
    bytes: int


def copy_folder(folder: Path, root: Path, into: str) -> list[CopiedFile]:
    """Copy all files of a folder into a savepoint, durably; temporary files (a leading dot) stay behind."""
    copied = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        copied.append(copy_file(path, root, f"{into}/{name}", name=name))
    return copied


def copy_file(source: Path, root: Path, path: str, *, name: str) -> CopiedFile:
    """Copy one file into a savepoint, durably."""
    size, digest = _copy(source, root / path)
    failpoint("savepoint_files")
    return CopiedFile(name=name, path=path, bytes=size, sha256=digest)


def describe_file(root: Path, path: str, *, name: str) -> CopiedFile:
    """A file that stands in a savepoint already."""
    size, digest = _digest(root / path)
    return CopiedFile(name=name, path=path, bytes=size, sha256=digest)


def copy_back(root: Path, files: list[CopiedFile], folder: Path) -> None:
    """Write copied files into a folder under the names they had; a damaged copy is refused."""
    for file in files:
        source = _place(root, file)
        if not source.is_file():
            raise missing_file(file.path)
        target = below(folder, file.name, of="a copied file", code="SAVE-020")
        if _copy(source, target) != (file.bytes, file.sha256):
            target.unlink()
            raise damaged_file(file.path, "its checksum does not match")


def verify_savepoint(path: Path | str) -> Verified:
    """Read every file of a savepoint and compare it with the record; all problems are reported together."""
    root, savepoint = Path(path), read_savepoint(path)
    problems = list(damages(root, savepoint))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        msg = f"savepoint {path} has {len(problems)} problems: " + "; ".join(each.message for each in problems)
        raise CheckpointRefused(msg, code=problems[0].code, hint="restore it from a copy, or use another savepoint")
    files = files_of(savepoint)
    return Verified(savepoint, len(files), sum(file.bytes for file in files))


def damages(root: Path, savepoint: Savepoint) -> Iterator[CheckpointRefused]:
    """Everything that is wrong with the files of a savepoint."""
    for file in files_of(savepoint):
        problem = _damage(root, file)
        if problem is not None:
            yield problem
    for uid, files in savepoint.state.items():
        if uid not in savepoint.layouts:
            yield damaged_file(f"state of {uid}", "the record does not say how it is laid out")
        yield from _doubled(root, uid, files)


def _doubled(root: Path, uid: str, files: list[PageFile]) -> Iterator[CheckpointRefused]:
    """Key groups that stand in two files; files that cannot be read are reported by themselves."""
    groups: Counter[int] = Counter()
    for file in files:
        with contextlib.suppress(CheckpointRefused), PageReader(root, file) as reader:
            groups.update(reader.index.keys())
    doubled = sorted(group for group, times in groups.items() if times > 1)
    if doubled:
        yield damaged_file(f"state of {uid}", f"key groups {doubled} stand in two files")


def _damage(root: Path, file: PageFile | CopiedFile) -> CheckpointRefused | None:
    try:
        path = _place(root, file)
    except CheckpointRefused as problem:
        return problem
    if not path.is_file():
        return missing_file(file.path)
    size, digest = _digest(path)
    if size != file.bytes:
        return damaged_file(file.path, f"it has {size} bytes instead of {file.bytes}")
    if digest != file.sha256:
        return damaged_file(file.path, "its checksum does not match")
    return _misfit(root, file) if isinstance(file, PageFile) else None


def _misfit(root: Path, file: PageFile) -> CheckpointRefused | None:
    """Compare the record of a file with what is in it."""
    try:
        with PageReader(root, file) as reader:
            read = sum(1 for _ in reader.pages())
            index = reader.index
    except CheckpointRefused as problem:
        return problem
    counted = (min(index), max(index)), read, sum(group.entries for group in index.values())
    if counted != (file.groups, file.pages, file.entries):
        return damaged_file(file.path, "its key groups, pages or entries are not those of the record")
    return None


def files_of(savepoint: Savepoint) -> list[PageFile | CopiedFile]:
    """All files that a savepoint names."""
    pages = [file for files in savepoint.state.values() for file in files]
    logs = [file for files in savepoint.sources.values() for file in files]
    return [*pages, *logs, *savepoint.native]


def _place(root: Path, file: PageFile | CopiedFile) -> Path:
    return below(root, file.path, of="a file of the savepoint", code="SAVE-020")


def _copy(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file and wait until the disk has it; returns size and SHA-256 of what was written."""
    make_directory(target.parent)
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as read, target.open("wb") as write:
        while chunk := read.read(_CHUNK):
            write.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        write.flush()
        os.fsync(write.fileno())
    sync_directory(target.parent)
    return size, digest.hexdigest()


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
