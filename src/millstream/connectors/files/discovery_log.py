"""The files a source has found, in the order they are read: in memory and, with a folder, in a log of each owner's own."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.checkpoint.names import outside, stays_inside
from millstream.checkpoint.stores.local import make_directory, sync_directory, write_synced
from millstream.connectors.files.store import FileStamp
from millstream.errors import CheckpointRefused, Fenced

_NAME = re.compile(r"files(?:-(\d{6,}))?\.jsonl")
_EARLIER_LOGS = 2

Unit = tuple[int, int, int]
"""First, end, estimated rows; first and end are 0 when the file is read as a whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class FoundFile:
    """A file and the units it is read in: row groups of parquet, byte ranges of json, else the whole."""

    stamp: FileStamp
    format: str
    units: tuple[Unit, ...]

    def to_json(self) -> dict[str, Any]:
        """One line of the log."""
        return {**dataclasses.asdict(self.stamp), "format": self.format, "units": self.units}

    @staticmethod
    def from_json(line: dict[str, Any]) -> FoundFile:
        """Read one line of the log."""
        # The source may be a single file, which has no path below itself; names of users' files may hold anything else.
        if line["path"] and not stays_inside(line["path"]):
            raise outside(line["path"], of="a file to read", code="CKPT-061")
        stamp = FileStamp(line["path"], line["size"], line["mtime_ns"])
        return FoundFile(stamp, line["format"], tuple((first, end, rows) for first, end, rows in line["units"]))


class DiscoveryLog:
    """Found files in order. An owner appends to `files-<token>.jsonl`, which starts as a copy of its predecessor's.

    So an owner that was replaced and does not know it yet writes where nobody looks. A log without a token in its name
    (`files.jsonl`) is everyone's predecessor. A torn last line counts for nothing; any other damage is refused, since each
    line holds the checksum of all up to it. A changed path would make a file look new, and its rows would come twice.
    """

    def __init__(self, folder: Path | None, token: int) -> None:
        self._path = None if folder is None else folder / f"files-{token:06d}.jsonl"
        self._token = token
        self._size = 0
        self._sum = 0
        """Checksum of the lines up to here."""
        self.files: list[FoundFile] = []
        self.is_complete = False
        """Whether no more files follow in this run."""
        self._run = ""
        """The lineage for whose run it was opened again behind an earlier one."""
        if self._path is not None:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        make_directory(path.parent)
        earlier = _logs(path.parent, below=self._token)
        newest = path if path.exists() else next(iter(earlier), None)
        content = b"" if newest is None else _whole_lines(newest)
        self._take(content, newest or path)
        self._size = len(content)
        if newest != path:
            _create(path, content)
        for forgotten in earlier[_EARLIER_LOGS:]:
            forgotten.unlink(missing_ok=True)

    def _take(self, content: bytes, path: Path) -> list[FoundFile]:
        read = []
        for number, line in enumerate(content.splitlines(), 1):
            try:
                entry = json.loads(line)
                self._sum = _checked_sum(entry, self._sum)
                read += [] if self._note(entry) else [FoundFile.from_json(entry)]
            except (ValueError, KeyError, TypeError, AttributeError):
                msg = f"line {number} of the discovery log {str(path)!r} cannot be read, or was changed"
                raise CheckpointRefused(msg, code="FILES-003", hint="restore the checkpoint folder") from None
        self.files.extend(read)
        return read

    def _note(self, entry: dict[str, Any]) -> bool:
        """Whether a line is about the run and names no file: that its files are complete, or that another one began."""
        if "again" in entry:
            self._run = str(entry["again"])
        self.is_complete = "complete" in entry or (self.is_complete and "again" not in entry)
        return "complete" in entry or "again" in entry

    def begin_run(self, lineage: str) -> None:
        """Another run begins behind the one that wrote this log: what is new since then belongs to it. Repeatable."""
        if self._run != lineage:
            self._append_entries([{"again": lineage}])
            self._run, self.is_complete = lineage, False

    def append(self, files: Sequence[FoundFile], *, complete: bool) -> None:
        """Write files down, durably before they can be seen; `complete` says that no more will follow."""
        self._append_entries([each.to_json() for each in files] + ([{"complete": True}] if complete else []))
        self.files.extend(files)
        self.is_complete = complete

    def _append_entries(self, entries: Sequence[dict[str, Any]]) -> None:
        if entries and self._path is not None:
            checksum, lines = self._sum, []
            for entry in entries:
                checksum = _sum_of(entry, checksum)
                lines.append(json.dumps({**entry, "sum": checksum}).encode() + b"\n")
            self._append(self._path, b"".join(lines))
            self._sum = checksum

    def adopt(self) -> list[FoundFile]:
        """Files that a predecessor wrote down after its log was copied, when this one has not gone another way since.

        The predecessor may have handed out a position behind them before it was stopped.
        """
        if self._path is None:
            return []
        mine = self._path.read_bytes()[: self._size]
        for log in _logs(self._path.parent, below=self._token):
            content = _whole_lines(log)
            if len(content) > len(mine) and content.startswith(mine):
                read = self._take(content[len(mine) :], log)
                self._append(self._path, content[len(mine) :])
                return read
        return []

    def _append(self, path: Path, lines: bytes) -> None:
        try:
            # Never created here: a missing log means that later owners have cleared it away.
            with path.open("rb+") as file:
                file.truncate(self._size)  # what an append that failed has left
                file.seek(self._size)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError:
            msg = f"the discovery log {str(path)!r} was removed by a later owner of the job"
            raise Fenced(msg, hint="end this run; the later one goes on") from None
        self._size += len(lines)


def _sum_of(entry: dict[str, Any], before: int) -> int:
    return zlib.crc32(json.dumps(entry).encode(), before)


def _checked_sum(entry: dict[str, Any], before: int) -> int:
    """The checksum after a line; lines from before there were checksums stand at the beginning of a log, if anywhere."""
    stored = entry.pop("sum", None)
    if stored is None and before == 0:
        return 0
    if stored != _sum_of(entry, before):
        msg = "another checksum"
        raise ValueError(msg)
    return int(stored)


def _logs(folder: Path, *, below: int) -> list[Path]:
    """The logs of owners before a token, the newest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    numbered = sorted(((int(name[1] or 0), path) for name, path in named if name is not None), reverse=True)
    return [path for token, path in numbered if token < below]


def _whole_lines(path: Path) -> bytes:
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def _create(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    write_synced(temporary, content)
    temporary.replace(path)
    sync_directory(path.parent)
