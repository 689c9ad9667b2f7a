"""The lists by which a sink publishes: one small file per epoch that names the data files which belong to it.

An epoch without rows has a list too: it is the mark that the epoch is published. A list never changes; it may be withdrawn
when a new lineage takes over and leaves its epoch out.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.names import stored_path
from millstream.checkpoint.stores.local import LocalStore, make_directory, sync_directory
from millstream.connectors.files.encoders import COMPRESSIONS
from millstream.connectors.files.store import LISTS
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidSchema
from millstream.model.schema import Schema, schema_of

_VERSION = 1
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """A data file that an epoch has made visible."""

    path: str
    """Relative to the directory of the sink."""
    rows: int
    bytes: int
    partition: dict[str, str | None]
    epoch: int
    job: str
    lineage: str
    step: str
    crc32: int | None = None
    """Checksum of the file's bytes; unknown of files from before there were checksums."""


def check_published(file: PublishedFile, unit: str, *, found: int, known: int, step: str | None = None) -> None:
    """Refuse a data file that does not hold as much as its list says: it was cut, emptied or changed."""
    if found != known:
        msg = f"published file {file.path!r} does not hold what its list says"
        raise ExternalFailure(
            msg, code="FILES-043", step=step, found=f"{found} {unit}", known=f"{known} {unit}", hint="restore the file"
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """One epoch's list. Its digest covers the names and sizes of its files."""

    job: str
    lineage: str
    step: str
    epoch: int
    schema: str
    """The sink's columns: an Arrow schema in IPC form, as base64 text."""
    encoding: dict[str, Any]
    """The options that a reader of the files needs: format, header, delimiter."""
    files: tuple[dict[str, Any], ...]
    token: int = 0
    """Of the run that published it; no part of the digest, since a later run may find it published."""
    follows: bool = False
    """Whether the epoch before had a list when this one was created; of older lists that is not known."""
    path: Path | None = dataclasses.field(default=None, compare=False)
    """Where it was read from."""

    def __post_init__(self) -> None:
        for file in self.files:
            stored_path(file["path"], of="a published file")

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(file["rows"] for file in self.files)

    @property
    def digest(self) -> str:
        """SHA-256 of the files in canonical JSON."""
        text = json.dumps(self.files, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def columns(self) -> Schema:
        """The sink's columns."""
        try:
            stored = base64.b64decode(self.schema, validate=True)
            return schema_of(pa.ipc.read_schema(pa.py_buffer(stored)))
        except (ValueError, OSError, pa.ArrowException, InvalidSchema):
            msg = f"list {str(self.path)!r} has columns that cannot be read"
            raise CheckpointRefused(msg, code="FILES-010", hint="restore the list") from None

    @property
    def is_withdrawn(self) -> bool:
        """Whether it was taken back after it was read."""
        return self.path is not None and not self.path.exists()

    def has_content_of(self, other: FileList) -> bool:
        """Whether both name the same rows: the same files, or files of the same bytes by other attempts."""
        return self.files == other.files or self._contents() == other._contents()

    def _contents(self) -> list[Any]:
        # Files from before there were checksums are known by their names alone.
        return [
            [file["partition"], file["rows"], file["bytes"], file.get("crc32", file["path"])] for file in self.files
        ]

    def to_json(self) -> dict[str, Any]:
        """The content of the list's file."""
        head = {"version": _VERSION, "job": self.job, "lineage": self.lineage, "step": self.step, "epoch": self.epoch}
        body = {"token": self.token, "follows": self.follows, "rows": self.rows, "digest": self.digest}
        content = {**head, **body, "schema": self.schema, "encoding": self.encoding, "files": list(self.files)}
        return {**content, "checksum": _checksum(content)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FileList:
        """Read the content of a list's file."""
        texts = {name: data[name] for name in ("job", "lineage", "step", "schema")}
        if not all(isinstance(text, str) for text in texts.values()) or not isinstance(data["epoch"], int):
            msg = "a field of another type"
            raise TypeError(msg)
        kept = {**texts, "epoch": data["epoch"], "encoding": _checked_encoding(data["encoding"])}
        return FileList(
            **kept, files=tuple(data["files"]), token=data.get("token", 0), follows=bool(data.get("follows"))
        )

    def published(self) -> list[PublishedFile]:
        """The files of the list."""
        return [
            PublishedFile(**file, epoch=self.epoch, job=self.job, lineage=self.lineage, step=self.step)
            for file in self.files
        ]


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of all that a list says; lists from before there was one have none."""
    others = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _checked_encoding(encoding: Any) -> dict[str, Any]:
    is_csv_known = isinstance(encoding.get("header"), bool) and isinstance(encoding.get("delimiter"), str)
    if encoding["format"] not in COMPRESSIONS or (encoding["format"] == "csv" and not is_csv_known):
        msg = "an encoding that no file has"
        raise ValueError(msg)
    return dict(encoding)


def tag_of(*, job: str, lineage: str, step: str) -> str:
    """Tells the files and lists of one sink of one lineage from those of others in the same directory."""
    return hashlib.sha256(f"{job}/{lineage}/{step}".encode()).hexdigest()[:10]


def list_folder(root: Path, *, job: str, lineage: str, step: str) -> Path:
    """Where one sink of one lineage keeps its lists."""
    return root / LISTS / f"{step}-{lineage}-{tag_of(job=job, lineage=lineage, step=step)}"


def read_list(path: Path) -> FileList:
    """Read one list and check its digest and its checksum."""
    text = path.read_bytes()
    try:
        data = json.loads(text)
        content = dataclasses.replace(FileList.from_json(data), path=path)
        pairs = {"digest": (content.digest, data["digest"])}
        checksum = _checksum(data)
        pairs["checksum"] = (checksum, data.get("checksum", checksum))
    except _UNREADABLE:
        msg = f"list {str(path)!r} cannot be read"
        raise CheckpointRefused(msg, code="FILES-010", hint="restore the list") from None
    for name, (found, known) in pairs.items():
        if found != known:
            msg = f"list {str(path)!r} does not match its {name}"
            raise CheckpointRefused(msg, code="FILES-010", found=found, known=known, hint="restore the list")
    return content


def published_list(root: Path, content: FileList) -> FileList | None:
    """The list that stands for the same sink, lineage and epoch, if there is one."""
    for path in list_places(root, content, content.epoch):
        if path.exists() and (existing := read_list(path)).job == content.job:
            return existing
    return None


def list_places(root: Path, listing: FileList, epoch: int) -> tuple[Path, Path]:
    """Where the list of an epoch of the same sink and lineage may stand."""
    name = f"{epoch:010d}.json"
    folder = list_folder(root, job=listing.job, lineage=listing.lineage, step=listing.step)
    # The folder without a tag is where lists were kept before; there a list may belong to another job.
    return folder / name, root / LISTS / f"{listing.step}-{listing.lineage}" / name


def publish_list(root: Path, content: FileList) -> None:
    """Make an epoch visible by creating its list, exclusively and durably.

    The same rows again change nothing; others for the epoch are refused.
    """
    existing = published_list(root, content)
    if existing is None:
        folder = list_folder(root, job=content.job, lineage=content.lineage, step=content.step)
        make_directory(folder)
        follows = any(path.exists() for path in list_places(root, content, content.epoch - 1))
        stored = dataclasses.replace(content, follows=follows).to_json()
        LocalStore(folder).create(f"{content.epoch:010d}.json", json.dumps(stored).encode())
    elif not existing.has_content_of(content):
        msg = f"epoch {content.epoch} is already published with other files"
        raise CheckpointRefused(
            msg,
            code="SINK-001",
            step=content.step,
            found=content.digest,
            known=existing.digest,
            hint="the job is not deterministic, or two jobs share a lineage; start a new lineage",
        )


def withdraw_lists(lists: Sequence[FileList]) -> None:
    """Take epochs back, the last first so that readers never see a gap; data files stay."""
    paths = [each.path for each in sorted(lists, key=lambda each: each.epoch, reverse=True) if each.path is not None]
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_directory(folder)


class PublishedLists:
    """The lists below a directory; remembers which were taken, since a list never changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._taken: set[str] = set()
        self._given: set[str] = set()

    def taken(self) -> None:
        """What `new` gave last is safe with the caller and need not be given again."""
        self._taken |= self._given

    def new(self) -> list[FileList]:
        """Lists that were not taken yet, oldest first and each sink's in order of its epochs."""
        placed: list[tuple[int, str]] = []
        for folder in _folders(self._root / LISTS):
            with os.scandir(folder) as entries:
                fresh = [each for each in entries if _is_list(each.name) and each.path not in self._taken]
            placed.extend(_in_order(fresh))
        self._given = {path for _, path in placed}
        return [each for _, path in sorted(placed) if (each := _read_present(Path(path))) is not None]


def _read_present(path: Path) -> FileList | None:
    try:
        return read_list(path)
    except FileNotFoundError:  # withdrawn since the folder was listed
        return None


def _folders(lists: Path) -> list[Path]:
    return [folder for folder in lists.iterdir() if folder.is_dir()] if lists.exists() else []


def _is_list(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _in_order(entries: Sequence[os.DirEntry[str]]) -> list[tuple[int, str]]:
    """Times of lists, never lower than the time of an earlier epoch, so a clock that steps back cannot swap epochs."""
    latest, placed = 0, []
    for entry in sorted(entries, key=lambda each: each.name):
        with contextlib.suppress(FileNotFoundError):  # withdrawn since the folder was listed
            latest = max(latest, entry.stat().st_mtime_ns)
            placed.append((latest, entry.path))
    return placed
