"""Which files a source reads, in which pieces: found once, written down, and from then on read from the log alone."""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

from millstream.connectors.files.discovery_log import FoundFile, Unit
from millstream.connectors.files.gaps import check_no_gap
from millstream.connectors.files.lists import FileList, check_published
from millstream.connectors.files.published import PublishedLists
from millstream.connectors.files.store import LISTS, FileStamp, joined, list_files, unreadable
from millstream.errors import ExternalFailure, InvalidStep

_ROWS_PER_UNIT = 131_072
_BYTES_PER_UNIT = 32 << 20
_SAMPLE = 65_536
_EXTENSIONS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


class Discovery:
    """Finds the files of a source that are not in its log yet, in order of modification time and path."""

    def __init__(self, store: fs.FileSystem, root: str, options: dict[str, Any], *, step: str) -> None:
        self._store, self._root, self._options, self._step = store, root, options, step
        self._lists = PublishedLists(Path(root))

    def new_files(self, known: set[str]) -> list[FoundFile]:
        """Files to append to the log; call `taken` when that is done."""
        stamps = [stamp for stamp in self._stamps() if stamp.path not in known]
        if not stamps:
            return []
        chosen = self._format([stamp.path for stamp in stamps])
        return [FoundFile(stamp, chosen, self._units(stamp, chosen)) for stamp in stamps]

    def taken(self) -> None:
        """The files found last are in the log."""
        self._lists.taken()

    def _stamps(self) -> list[FileStamp]:
        info = self._store.get_file_info(self._root)
        if info.type == fs.FileType.NotFound:
            if self._options["watch"]:
                return []
            msg = f"nothing is at {self._root!r}"
            raise ExternalFailure(msg, code="FILES-004", step=self._step, hint="create it or correct path=")
        if info.type == fs.FileType.File:
            return [FileStamp("", info.size, info.mtime_ns)]
        if self._store.get_file_info(posixpath.join(self._root, LISTS)).type == fs.FileType.Directory:
            return [stamp for stamp in self._listed() if self._is_wanted(stamp)]
        listed = list_files(self._store, self._root, recursive=self._options["recursive"])
        return sorted(filter(self._is_wanted, listed), key=lambda stamp: (stamp.mtime_ns, stamp.path))

    def _listed(self) -> list[FileStamp]:
        """Files that a sink of ours has published here; what it has not listed is not for reading."""
        fresh = self._lists.new()
        check_no_gap(Path(self._root), fresh)
        return [stamp for each in fresh for stamp in self._published(each)]

    def _published(self, listing: FileList) -> list[FileStamp]:
        files = listing.published()
        infos = self._store.get_file_info([posixpath.join(self._root, file.path) for file in files])
        missing = [info.path for info in infos if info.type == fs.FileType.NotFound]
        if missing and listing.is_withdrawn:
            return []
        if missing:
            msg = f"published file {missing[0]!r} is missing"
            raise ExternalFailure(msg, code="FILES-042", step=self._step, hint="restore the file")
        for file, info in zip(files, infos, strict=True):
            check_published(file, "bytes", found=info.size, known=file.bytes, step=self._step)
        return [FileStamp(file.path, info.size, info.mtime_ns) for file, info in zip(files, infos, strict=True)]

    def _is_wanted(self, stamp: FileStamp) -> bool:
        return fnmatch.fnmatchcase(posixpath.basename(stamp.path), self._options["pattern"])

    def _format(self, paths: Sequence[str]) -> str:
        if self._options["format"] is not None:
            return str(self._options["format"])
        examples = {_extension(path or self._root): path or self._root for path in paths}
        kinds = {_EXTENSIONS.get(extension) for extension in examples}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            return kind
        msg = "the format of the files cannot be told from their names"
        raise InvalidStep(
            msg,
            code="FILES-005",
            step=self._step,
            found=", ".join(sorted(examples.values())),
            known=_EXTENSIONS,
            hint="pass format=, or pattern= to leave files out",
        )

    def _units(self, stamp: FileStamp, chosen: str) -> tuple[Unit, ...]:
        path = joined(self._root, stamp.path)
        if chosen == "parquet":
            return _row_group_units(self._store, path, self._step)
        rows = _estimated_rows(self._store, path, stamp.size, chosen, self._step)
        if chosen in {"json", "debezium"} and not path.endswith(_PACKED) and stamp.size > 2 * _BYTES_PER_UNIT:
            return _byte_units(stamp.size, rows)
        return ((0, 0, rows),)


def _extension(path: str) -> str:
    base, extension = posixpath.splitext(path.lower())
    return posixpath.splitext(base)[1] if extension in _PACKED else extension


def _row_group_units(store: fs.FileSystem, path: str, step: str) -> tuple[Unit, ...]:
    try:
        with store.open_input_file(path) as file:
            metadata = pq.read_metadata(file)
    except (OSError, ValueError) as problem:
        raise unreadable(path, "parquet", problem, step=step) from None
    units: list[Unit] = []
    first, rows = 0, 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= _ROWS_PER_UNIT or group == metadata.num_row_groups - 1:
            units.append((first, group + 1, rows))
            first, rows = group + 1, 0
    return tuple(units)


def _byte_units(size: int, rows: int) -> tuple[Unit, ...]:
    pieces = -(-size // _BYTES_PER_UNIT)
    cuts = [size * piece // pieces for piece in range(pieces + 1)]
    return tuple((start, end, rows // pieces) for start, end in itertools.pairwise(cuts))


def _estimated_rows(store: fs.FileSystem, path: str, size: int, chosen: str, step: str) -> int:
    if chosen == "arrow":
        return max(1, size // 64)
    try:
        with store.open_input_stream(path) as stream:
            sample = stream.read(_SAMPLE)
    except OSError as problem:
        raise unreadable(path, chosen, problem, step=step) from problem
    unpacked = size * 5 if path.endswith(_PACKED) else size
    return max(1, round(unpacked * (sample.count(b"\n") or 1) / max(1, len(sample))))
