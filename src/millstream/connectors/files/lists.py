"""The lists by which a sink publishes: one small file per epoch that names the data files which belong to it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.files.store import LISTS, make_directory
from millstream.errors import CheckpointRefused

_VERSION = 1


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

    @property
    def digest(self) -> str:
        """SHA-256 of the files in canonical JSON."""
        text = json.dumps(self.files, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The content of the list's file."""
        head = {"version": _VERSION, "job": self.job, "lineage": self.lineage, "step": self.step, "epoch": self.epoch}
        body = {"rows": sum(file["rows"] for file in self.files), "digest": self.digest}
        return {**head, **body, "schema": self.schema, "encoding": self.encoding, "files": list(self.files)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FileList:
        """Read the content of a list's file."""
        kept = {name: data[name] for name in ("job", "lineage", "step", "epoch", "schema", "encoding")}
        return FileList(**kept, files=tuple(data["files"]))

    def published(self) -> list[PublishedFile]:
        """The files of the list."""
        return [
            PublishedFile(**file, epoch=self.epoch, job=self.job, lineage=self.lineage, step=self.step)
            for file in self.files
        ]


def list_folder(root: Path, *, step: str, lineage: str) -> Path:
    """Where one sink of one lineage keeps its lists."""
    return root / LISTS / f"{step}-{lineage}"


def read_list(path: Path) -> FileList:
    """Read one list and check its digest."""
    data = json.loads(path.read_text(encoding="utf-8"))
    found = FileList.from_json(data)
    if found.digest != data["digest"]:
        msg = f"list {str(path)!r} does not match its digest"
        raise CheckpointRefused(
            msg, code="FILES-010", found=found.digest, known=data["digest"], hint="restore the list"
        )
    return found


def publish_list(root: Path, content: FileList) -> None:
    """Make an epoch visible by creating its list, exclusively and durably.

    The same files again change nothing; other files for the epoch are refused.
    """
    folder = list_folder(root, step=content.step, lineage=content.lineage)
    final = folder / f"{content.epoch:010d}.json"
    if not final.exists():
        make_directory(folder)
        # A committer that won the race is no failure: its list is compared below like any earlier one.
        LocalStore(folder).create(final.name, json.dumps(content.to_json()).encode())
    found = read_list(final)
    if found.files != content.files:
        msg = f"epoch {content.epoch} is already published with other files"
        raise CheckpointRefused(
            msg,
            code="SINK-001",
            step=content.step,
            found=content.digest,
            known=found.digest,
            hint="the job is not deterministic, or two jobs share a lineage; start a new lineage",
        )


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
        found: list[tuple[int, str]] = []
        for folder in _folders(self._root / LISTS):
            with os.scandir(folder) as entries:
                fresh = [each for each in entries if _is_list(each.name) and each.path not in self._taken]
            found.extend(_in_order(fresh))
        self._given = {path for _, path in found}
        return [read_list(Path(path)) for _, path in sorted(found)]


def _folders(lists: Path) -> list[Path]:
    return [folder for folder in lists.iterdir() if folder.is_dir()] if lists.exists() else []


def _is_list(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _in_order(entries: Sequence[os.DirEntry[str]]) -> list[tuple[int, str]]:
    """Times of lists, never lower than the time of an earlier epoch, so a clock that steps back cannot swap epochs."""
    latest, found = 0, []
    for entry in sorted(entries, key=lambda each: each.name):
        latest = max(latest, entry.stat().st_mtime_ns)
        found.append((latest, entry.path))
    return found
