"""Where files lie: paths to file systems, listings, and writes that survive a crash."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import zlib
from pathlib import Path

from pyarrow import fs

from millstream.errors import ExternalFailure

LISTS = "_millstream"
"""The folder in which a sink lists the files it has published."""
HELD_BACK = "runs"
"""The folder in it with lists of runs whose result is shown as a whole."""
RUNS = "_runs"
"""The folder with the data files of such runs, one folder for each lineage: out of sight for whoever takes what lies around."""


@dataclasses.dataclass(frozen=True, slots=True)
class FileStamp:
    """A file as it was found; another size or time means another content."""

    path: str
    """Relative to the root of the source; empty when the root is the file."""
    size: int
    mtime_ns: int


def open_store(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path, and the path inside it."""
    if "://" in path:
        store, inside = fs.FileSystem.from_uri(path)
        return store, inside
    return fs.LocalFileSystem(), Path(path).absolute().as_posix()


def local_path(path: str) -> Path:
    """A path of the local file system, given as such or as a file:// address."""
    return Path(open_store(path)[1])


def list_files(store: fs.FileSystem, root: str, *, recursive: bool) -> list[FileStamp]:
    """Files below a directory that hold something; names with a leading `_` or `.` are not data."""
    selector = fs.FileSelector(root, allow_not_found=False, recursive=recursive)
    stamps = []
    for info in store.get_file_info(selector):
        relative = posixpath.relpath(info.path, root)
        hidden = any(part[0] in "_." for part in relative.split("/"))
        if info.type == fs.FileType.File and info.size and not hidden:
            stamps.append(FileStamp(relative, info.size, info.mtime_ns))
    return stamps


def joined(root: str, relative: str) -> str:
    """The path of a file below a root, or the root itself."""
    return posixpath.join(root, relative) if relative else root


def check_unchanged(store: fs.FileSystem, root: str, stamp: FileStamp) -> None:
    """Refuse a file that vanished or changed since it was found: it could not be read again to the same rows."""
    info = store.get_file_info(joined(root, stamp.path))
    if info.type == fs.FileType.NotFound:
        msg = f"file {info.path!r} vanished after it was found"
        raise ExternalFailure(msg, code="FILES-001", hint="put the file back, or start a new lineage")
    if (info.size, info.mtime_ns) != (stamp.size, stamp.mtime_ns):
        msg = f"file {info.path!r} changed after it was found"
        raise ExternalFailure(
            msg,
            code="FILES-002",
            found=f"{info.size} bytes, modified {info.mtime_ns} ns",
            known=f"{stamp.size} bytes, modified {stamp.mtime_ns} ns",
            hint="write files under another name and rename them when complete",
        )


def unreadable(path: str, kind: str, problem: Exception, *, step: str | None = None) -> ExternalFailure:
    """The error for a file that is not of its format, or was cut."""
    msg = f"file {path!r} cannot be read as {kind}"
    return ExternalFailure(
        msg, code="FILES-006", step=step, found=problem, hint="mend or remove it, or leave it out by pattern="
    )


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def checksum(path: Path) -> dict[str, int]:
    """The size of a file just written and the checksum of its bytes, which are still in memory."""
    size = crc = 0
    with path.open("rb", buffering=0) as file:
        while data := file.read(1 << 20):
            size += len(data)
            crc = zlib.crc32(data, crc)
    return {"bytes": size, "crc32": crc}
