"""The lists by which a sink publishes: one small file per epoch that names the data files which belong to it.

An epoch without rows has a list too: it is the mark that the epoch is published. A list never changes; it may be withdrawn
when a new lineage takes over and leaves its epoch out. Lists of a run whose result is shown as a whole lie in a folder of their
own, where they count when `results.py` says so.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.names import stored_path
from millstream.checkpoint.stores.local import LocalStore, make_directory, sync_directory
from millstream.connectors.files.encoders import COMPRESSIONS
from millstream.connectors.files.store import HELD_BACK, LISTS
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
        return {**content, "checksum": checksum_of(content)}

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


def checksum_of(content: Mapping[str, Any]) -> str:
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


def list_folder(root: Path, *, job: str, lineage: str, step: str, is_held_back: bool = False) -> Path:
    """Where one sink of one lineage keeps its lists; those that are held back until the end of the run lie apart."""
    above = root / LISTS / HELD_BACK if is_held_back else root / LISTS
    return above / f"{step}-{lineage}-{tag_of(job=job, lineage=lineage, step=step)}"


def list_folders(root: Path, *, job: str, lineage: str, step: str) -> tuple[Path, ...]:
    """All folders in which lists of one sink of one lineage may lie."""
    # The folder without a tag is where lists were kept before; there a list may belong to another job.
    untagged = root / LISTS / f"{step}-{lineage}"
    here, held_back = (
        list_folder(root, job=job, lineage=lineage, step=step, is_held_back=held) for held in (False, True)
    )
    return here, untagged, held_back


def read_list(path: Path) -> FileList:
    """Read one list and check its digest and its checksum."""
    text = path.read_bytes()
    try:
        data = json.loads(text)
        content = dataclasses.replace(FileList.from_json(data), path=path)
        pairs = {"digest": (content.digest, data["digest"])}
        checksum = checksum_of(data)
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


def list_places(root: Path, listing: FileList, epoch: int) -> tuple[Path, ...]:
    """Where the list of an epoch of the same sink and lineage may stand."""
    folders = list_folders(root, job=listing.job, lineage=listing.lineage, step=listing.step)
    return tuple(folder / list_name(epoch) for folder in folders)


def list_name(epoch: int) -> str:
    """The name of an epoch's list in its folder."""
    return f"{epoch:010d}.json"


def publish_list(root: Path, content: FileList, *, is_held_back: bool = False) -> None:
    """Create the list of an epoch, exclusively and durably, which makes it visible unless it is held back.

    The same rows again change nothing; others for the epoch are refused.
    """
    existing = published_list(root, content)
    if existing is None:
        folder = list_folder(
            root, job=content.job, lineage=content.lineage, step=content.step, is_held_back=is_held_back
        )
        make_directory(folder)
        follows = any(path.exists() for path in list_places(root, content, content.epoch - 1))
        stored = dataclasses.replace(content, follows=follows).to_json()
        LocalStore(folder).create(list_name(content.epoch), json.dumps(stored).encode())
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
