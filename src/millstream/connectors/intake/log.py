"""Writes the files of an intake log: one owner, one thread, groups of entries that are durable together."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.connectors.intake.files import (
    ORIGIN,
    FileSpan,
    LoggedEntry,
    LogPlace,
    file_name,
    file_names,
    followed,
    number_of,
    whole_entries,
)
from millstream.connectors.intake.frames import framed

FILE_BYTES = 64 << 20
"""A file that has grown beyond it is followed by another, so that those behind can be deleted."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReceivedEntry:
    """Something received: its bytes as they came, how many rows it holds, and what its source wants to know again later."""

    body: bytes
    rows: int
    note: Any = None


class IntakeLog:
    """The log as its owner writes it."""

    def __init__(self, folder: Path, token: int, *, file_bytes: int = FILE_BYTES) -> None:
        self._folder, self._token, self._file_bytes = folder, token, file_bytes
        self._end = ORIGIN
        self._name = ""
        self._file: BinaryIO | None = None
        make_directory(folder)

    def adopt(self, start: LogPlace, *, rest: bool) -> list[LoggedEntry]:
        """Go on at the place where the last durable plan ended; with `rest`, behind what an earlier owner still wrote there.

        A source whose broker sends again what was not acknowledged lets that rest go, or its rows would come twice. A source that
        fetches is spared requests by taking it.
        """
        taken = _rest_behind(self._folder, start) if rest else []
        for name in {entry.file for entry in taken}:
            _sync(self._folder / name)  # its writer may have died before it did so
        self._end = taken[-1].place if taken else start
        return taken

    def append(self, entries: Sequence[ReceivedEntry]) -> list[LoggedEntry]:
        """Write entries; when it returns they are durable. What a failed call has left behind belongs to nothing."""
        try:
            logged = self._write(entries)
        except BaseException:
            self.close()
            raise
        self._end = logged[-1].place
        if self._end.offset >= self._file_bytes:
            self.close()
        return logged

    def _write(self, entries: Sequence[ReceivedEntry]) -> list[LoggedEntry]:
        file = self._opened()
        logged: list[LoggedEntry] = []
        at = file.tell()
        for entry in entries:
            frame = framed({"rows": entry.rows, "note": entry.note}, entry.body)
            file.write(frame)
            logged.append(LoggedEntry(self._name, at, at + len(frame), entry.rows, entry.note))
            at += len(frame)
        failpoint("intake_written")
        file.flush()
        os.fsync(file.fileno())
        failpoint("intake_synced")
        return logged

    def _opened(self) -> BinaryIO:
        """The file that is written to; a new one begins with the place it follows."""
        if self._file is None:
            numbers = [number_of(name) or (0, 0) for name in file_names(self._folder)]
            mine = [number for token, number in numbers if token == self._token]
            self._name = file_name(self._token, max(mine, default=-1) + 1)
            self._file = (self._folder / self._name).open("xb")
            self._file.write(framed({"follows": list(self._end)}, b""))
            sync_directory(self._folder)
        return self._file

    def close(self) -> None:
        """Close the file that is written to."""
        if self._file is not None:
            self._file.close()
            self._file = None


def delete_behind(folder: Path, place: LogPlace) -> None:
    """Delete the files that a reader from a place on does not need: all that come before its file.

    Files that an earlier owner wrote and nobody adopted are among them.
    """
    number = number_of(place.file)
    for name in file_names(folder) if number is not None else []:
        before = number_of(name)
        if before is not None and number is not None and before < number:
            (folder / name).unlink(missing_ok=True)


def _rest_behind(folder: Path, start: LogPlace) -> list[LoggedEntry]:
    """What lies behind a place: in its own file up to where the newest file goes on from it, then in that one, and so on."""
    followers: dict[str, list[tuple[str, int, int]]] = {}
    for name in file_names(folder):
        if (before := followed(folder, name)) is not None:
            followers.setdefault(before[0].file, []).append((name, before[0].offset, before[1]))
    entries: list[LoggedEntry] = []
    at = start
    while True:
        behind = [each for each in followers.get(at.file, []) if each[1] >= at.offset]
        upto = behind[-1][1] if behind else None
        if at.file and (folder / at.file).is_file():
            entries += whole_entries(folder, FileSpan(at.file, at.offset, upto))
            at = entries[-1].place if entries and entries[-1].file == at.file else at
        if not behind or (at.offset != upto):
            return entries
        at = LogPlace(behind[-1][0], behind[-1][2])


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
