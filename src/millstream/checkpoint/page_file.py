"""A file of state pages: checked records in the order of their key groups, then an index of the groups, then a trailer.

Both sides stream: a writer holds one page, a reader seeks to the key groups it wants and reads those only.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from millstream.checkpoint.names import below, stored_path
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.errors import CheckpointRefused

MAGIC = b"MSPAGES1"
_FRAME = struct.Struct("<II")
"""Before each record: its length and its CRC-32."""
_TRAILER = struct.Struct("<QII8s")
"""At the end: offset, length and CRC-32 of the index, and the magic."""
_CODEC = "zstd"
_SMALL = 256
"""Bytes below which compressing a page is not tried."""


class StoredPage(msgspec.Struct, frozen=True, array_like=True):
    """A page of a key group, as the step that owns it wrote it."""

    group: int
    page: int
    division: int
    """Into how many pages the key group is divided."""
    due: tuple[int, int, int]
    """When the page next needs attention: event time, processing time, expiry."""
    content: bytes
    size: int = 0
    """Length of the content before it was compressed; 0 when it was not."""


class IndexedGroup(msgspec.Struct, frozen=True, array_like=True):
    """Where the pages of a key group lie in the file, and how much they hold."""

    offset: int
    bytes: int
    pages: int
    entries: int


Index = dict[int, IndexedGroup]
_RECORD = msgspec.msgpack.Decoder(StoredPage)
_INDEX = msgspec.msgpack.Decoder(Index)


class PageFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a savepoint says about one file of pages."""

    path: str
    """Relative to the savepoint."""
    groups: tuple[int, int]
    """First and last key group in it."""
    pages: int
    entries: int
    """Keys, or stored rows of a columnar step."""
    bytes: int
    sha256: str
    index: str
    """SHA-256 of the index, so that a reader of some groups need not read them all to know the file."""

    def __post_init__(self) -> None:
        stored_path(self.path, of="a file of pages", code="SAVE-020")


class PageWriter:
    """Writes one file. The pages of a key group come together, groups in rising order."""

    def __init__(self, root: Path, path: str) -> None:
        self._path, self._name = root / path, path
        make_directory(self._path.parent)
        self._file: BinaryIO = self._path.open("xb")
        self._hash, self._offset = hashlib.sha256(), 0
        self._index: Index = {}
        self._write(MAGIC)

    def add(self, page: StoredPage, entries: int) -> None:
        """Append a page that holds this many entries."""
        known = self._index.get(page.group)
        if known is None and page.group <= max(self._index, default=-1):
            raise damaged_file(self._name, f"key group {page.group} came behind {max(self._index)}")
        known = known or IndexedGroup(self._offset, 0, 0, 0)
        record = msgspec.msgpack.encode(_compressed(page))
        self._write(_FRAME.pack(len(record), zlib.crc32(record)))
        self._write(record)
        self._index[page.group] = IndexedGroup(
            known.offset, self._offset - known.offset, known.pages + 1, known.entries + entries
        )

    def finish(self) -> PageFile:
        """Write index and trailer, and wait until the disk has the file and its name."""
        index = msgspec.msgpack.encode(self._index)
        start = self._offset
        self._write(index)
        self._write(_TRAILER.pack(start, len(index), zlib.crc32(index), MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_directory(self._path.parent)
        return PageFile(
            path=self._name,
            groups=(min(self._index), max(self._index)),
            pages=sum(group.pages for group in self._index.values()),
            entries=sum(group.entries for group in self._index.values()),
            bytes=self._offset,
            sha256=self._hash.hexdigest(),
            index=hashlib.sha256(index).hexdigest(),
        )

    def abort(self) -> None:
        """Drop the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        self._file.write(content)
        self._hash.update(content)
        self._offset += len(content)


class PageReader:
    """Reads one file after its size and index proved to be those the savepoint records."""

    def __init__(self, root: Path, known: PageFile) -> None:
        self._name, self._known = known.path, known
        try:
            self._file: BinaryIO = below(root, known.path, of="a file of pages", code="SAVE-020").open("rb")
        except FileNotFoundError as problem:
            raise missing_file(known.path) from problem
        try:
            self.index = self._read_index()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> PageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def pages(self, groups: range | None = None) -> Iterator[StoredPage]:
        """The pages of these key groups (default: all), one at a time, each checked before it is decoded."""
        for number, group in self.index.items():
            if groups is None or number in groups:
                yield from self._group(number, group)

    def _group(self, number: int, group: IndexedGroup) -> Iterator[StoredPage]:
        self._file.seek(group.offset)
        for _ in range(group.pages):
            page = self._record()
            if page.group != number:
                raise damaged_file(self._name, f"a page of key group {page.group} lies in key group {number}")
            yield page
        if self._file.tell() != group.offset + group.bytes:
            raise damaged_file(self._name, f"key group {number} does not end where the index says")

    def _record(self) -> StoredPage:
        head = self._file.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise damaged_file(self._name, "it is cut off")
        length, checksum = _FRAME.unpack(head)
        # A damaged length must not become a read of gigabytes.
        record = self._file.read(min(length, self._known.bytes))
        if len(record) != length or zlib.crc32(record) != checksum:
            raise damaged_file(self._name, "the checksum of a page does not match")
        try:
            return _uncompressed(_RECORD.decode(record))
        except (msgspec.DecodeError, pa.ArrowException, OSError, ValueError) as problem:
            raise damaged_file(self._name, f"a page cannot be decoded ({problem})") from None

    def _read_index(self) -> Index:
        size = os.fstat(self._file.fileno()).st_size
        if size != self._known.bytes:
            raise damaged_file(self._name, f"it has {size} bytes instead of {self._known.bytes}")
        if size < len(MAGIC) + _TRAILER.size or self._file.read(len(MAGIC)) != MAGIC:
            raise damaged_file(self._name, "it is not a file of pages")
        self._file.seek(size - _TRAILER.size)
        start, length, checksum, magic = _TRAILER.unpack(self._file.read(_TRAILER.size))
        if magic != MAGIC or start + length + _TRAILER.size != size:
            raise damaged_file(self._name, "its trailer does not fit")
        self._file.seek(start)
        content = self._file.read(length)
        if zlib.crc32(content) != checksum or hashlib.sha256(content).hexdigest() != self._known.index:
            raise damaged_file(self._name, "its index does not match")
        try:
            return _INDEX.decode(content)
        except msgspec.DecodeError as problem:
            raise damaged_file(self._name, f"its index cannot be decoded ({problem})") from None


def _compressed(page: StoredPage) -> StoredPage:
    """The page with compressed content, if that saves a tenth."""
    size = len(page.content)
    if size < _SMALL:
        return page
    packed = pa.compress(page.content, codec=_CODEC, asbytes=True)
    return msgspec.structs.replace(page, content=packed, size=size) if len(packed) < size - size // 10 else page


def _uncompressed(page: StoredPage) -> StoredPage:
    if not page.size:
        return page
    content = pa.decompress(page.content, page.size, codec=_CODEC, asbytes=True)
    return msgspec.structs.replace(page, content=content, size=0)


def missing_file(name: str) -> CheckpointRefused:
    """The error for a file that a savepoint names and does not have."""
    msg = f"file {name} of the savepoint is missing"
    return CheckpointRefused(msg, code="SAVE-004", hint="restore it from a copy, or use another savepoint")


def damaged_file(name: str, why: str) -> CheckpointRefused:
    """The error for a file that is not what was written."""
    msg = f"file {name} of the savepoint is damaged: {why}"
    return CheckpointRefused(msg, code="SAVE-005", hint="restore it from a copy, or use another savepoint")
