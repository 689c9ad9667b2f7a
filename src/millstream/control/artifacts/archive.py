"""Reads zip archives strictly: what two programs might understand differently is refused.

The list at the end of the archive, the header before each file and its bytes have to agree; files lie one behind the other, and
nothing stands before the first of them.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from millstream.control.artifacts.limits import (
    MOST_ENTRIES,
    ArtifactRefused,
    UnpackBudget,
    refuse_damaged,
    refuse_size,
)

_END, _LISTED, _LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_MOST_COMMENT = 0xFFFF
_MOST_LIST = 16 << 20
_STORED, _DEFLATED = 0, 8
_UTF8 = 0x800
_SECRET_FLAGS = 0x1 | 0x20 | 0x40 | 0x2000
"""Encrypted, patched, strongly encrypted, with a hidden list."""
_FOLDER, _LABEL = 0x10, 0x08
_PIECE = 1 << 16
_MOST_AT_ONCE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """A file or folder of an archive, as its list says."""

    name: str
    is_folder: bool
    method: int
    crc: int
    packed: int
    size: int
    header: int
    """Where its header stands."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """An entry of the list with the fields that only checks need."""

    entry: ArchiveEntry
    raw_name: bytes
    length: int


def entries_of(file: BinaryIO) -> list[ArchiveEntry]:
    """What an archive holds.

    Raises:
        ArtifactRefused: (CTL-350) it is damaged or no zip, (CTL-352) it holds links or devices, (CTL-354) too many entries, or
            (CTL-356) it is encrypted or compressed in a way that is not read.
    """
    start, listed, count = _found_list(file)
    rows: list[_Row] = []
    place = 0
    while place < len(listed):
        if len(rows) == MOST_ENTRIES:
            refuse_size("it has more entries than allowed", f"at most {MOST_ENTRIES}")
        rows.append(_row(listed, place))
        place += rows[-1].length
    if place != len(listed) or len(rows) != count or not rows:
        refuse_damaged("its list has another length than it says, or is empty")
    _check_places(file, rows, start)
    return [row.entry for row in rows]


def contents_of(file: BinaryIO, entry: ArchiveEntry, budget: UnpackBudget) -> Iterator[bytes]:
    """The bytes of a file, piece by piece; at their end it is known that they are whole.

    Raises:
        ArtifactRefused: (CTL-350) they are damaged, (CTL-354) they are beyond the budget.
    """
    crc = size = 0
    for piece in _unpacked(file, entry, budget):
        size += len(piece)
        crc = zlib.crc32(piece, crc)
        if size > entry.size:
            refuse_damaged("a file has more bytes than its entry says", entry.name)
        yield piece
    if size != entry.size or crc != entry.crc:
        refuse_damaged("a file has other bytes than its entry says", entry.name)


def _found_list(file: BinaryIO) -> tuple[int, bytes, int]:
    """The list of entries: where it begins, its bytes, and how many entries it says there are."""
    length = file.seek(0, os.SEEK_END)
    tail_start = max(0, length - _END.size - _MOST_COMMENT)
    file.seek(tail_start)
    tail = file.read()
    place = tail.rfind(b"PK\5\6")
    if place < 0 or len(tail) - place < _END.size:
        refuse_damaged("it is no zip archive, or it was cut")
    _, disk, list_disk, here, count, size, start, comment = _END.unpack_from(tail, place)
    end = tail_start + place
    if place + _END.size + comment != len(tail):
        refuse_damaged("something follows its end")
    # An archive in several parts, one with 64 bit sizes, or one behind other data does not pass here.
    if (disk, list_disk) != (0, 0) or here != count or start + size != end:
        refuse_damaged("its list is not where its end says")
    if count > MOST_ENTRIES or size > _MOST_LIST:
        refuse_size("it has more entries than allowed", f"at most {MOST_ENTRIES}")
    file.seek(start)
    return start, file.read(size), count


def _row(listed: bytes, place: int) -> _Row:
    if len(listed) - place < _LISTED.size:
        refuse_damaged("its list ends inside an entry")
    fields = _LISTED.unpack_from(listed, place)
    signature, _, _, flags, method, _, _, crc, packed, size, names, extra, comment, disk, _, mode, header = fields
    length = _LISTED.size + names + extra + comment
    raw = listed[place + _LISTED.size : place + _LISTED.size + names]
    if signature != b"PK\1\2" or place + length > len(listed) or disk:
        refuse_damaged("its list is damaged")
    name = _decoded(raw, is_utf8=bool(flags & _UTF8))
    if flags & _SECRET_FLAGS:
        _refuse_unread("a file in it is encrypted or patched", name)
    if method not in {_STORED, _DEFLATED} or (method == _STORED and packed != size):
        _refuse_unread(f"a file in it is compressed by method {method}", name)
    is_folder = _checked_kind(name, mode)
    if is_folder and size:
        refuse_damaged("a folder in it has content", name)
    entry = ArchiveEntry(
        name=name, is_folder=is_folder, method=method, crc=crc, packed=packed, size=size, header=header
    )
    return _Row(entry, raw, length)


def _decoded(raw: bytes, *, is_utf8: bool) -> str:
    """Without the mark for UTF-8, programs disagree about any letter beyond ASCII."""
    try:
        name = raw.decode("utf-8" if is_utf8 else "ascii")
    except UnicodeDecodeError:
        refuse_damaged("a name in it is in an encoding that is not known", ascii(raw))
    if not name:
        refuse_damaged("an entry has no name")
    return name


def _checked_kind(name: str, attributes: int) -> bool:
    """Whether it is a folder; anything but folders and files is refused."""
    kind = stat.S_IFMT(attributes >> 16)
    is_folder = name.endswith("/")
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR} or attributes & _LABEL:
        msg = "the archive is refused: it holds something that is neither a file nor a folder"
        hint = "put files into it instead of links and devices"
        raise ArtifactRefused(msg, code="CTL-352", found=repr(name)[:300], hint=hint)
    says_folder = kind == stat.S_IFDIR or (kind == 0 and bool(attributes & _FOLDER))
    if (says_folder and not is_folder) or (is_folder and kind == stat.S_IFREG):
        refuse_damaged("an entry is a file by its name and a folder by its kind, or the other way round", name)
    return is_folder


def _check_places(file: BinaryIO, rows: list[_Row], start: int) -> None:
    """Entries that overlap make much of little: each byte belongs to one file at most."""
    end = 0
    for row in sorted(rows, key=lambda row: row.entry.header):
        if row.entry.header < end or (end == 0 and row.entry.header):
            refuse_damaged("files in it overlap, or something stands before the first", row.entry.name)
        end = _data_start(file, row.entry, row.raw_name) + row.entry.packed
        if end > start:
            refuse_damaged("a file in it reaches into its list", row.entry.name)


def _data_start(file: BinaryIO, entry: ArchiveEntry, raw_name: bytes | None = None) -> int:
    file.seek(entry.header)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size:
        refuse_damaged("it was cut", entry.name)
    signature, _, flags, method, *_, names, extra = _LOCAL.unpack(header)
    named = file.read(names)
    if signature != b"PK\3\4" or method != entry.method or flags & _SECRET_FLAGS:
        refuse_damaged("the header of a file says something else than the list", entry.name)
    if raw_name is not None and named != raw_name:
        refuse_damaged("a file has another name in its header than in the list", entry.name)
    return entry.header + _LOCAL.size + int(names) + int(extra)


def _unpacked(file: BinaryIO, entry: ArchiveEntry, budget: UnpackBudget) -> Iterator[bytes]:
    file.seek(_data_start(file, entry))
    left = entry.packed
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS) if entry.method == _DEFLATED else None
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            refuse_damaged("it was cut", entry.name)
        left -= len(piece)
        if unpacking is None:
            budget.count(len(piece), len(piece))
            yield piece
        else:
            yield from _inflated(unpacking, piece, entry, budget)
    if unpacking is not None and not unpacking.eof:
        refuse_damaged("a compressed file was cut", entry.name)


def _inflated(unpacking: zlib._Decompress, piece: bytes, entry: ArchiveEntry, budget: UnpackBudget) -> Iterator[bytes]:
    """A little data may become very much: it comes in pieces, of which each is counted before the next is made."""
    budget.count(len(piece), 0)
    while piece:
        try:
            made = unpacking.decompress(piece, _MOST_AT_ONCE)
        except zlib.error:
            refuse_damaged("a compressed file is damaged", entry.name)
        budget.count(0, len(made))
        yield made
        if unpacking.unused_data or (unpacking.eof and unpacking.unconsumed_tail):
            refuse_damaged("something follows a compressed file inside its entry", entry.name)
        piece = unpacking.unconsumed_tail


def _refuse_unread(problem: str, name: str) -> NoReturn:
    msg = f"the archive is refused: {problem}"
    known = "plain zip archives, stored or deflated"
    raise ArtifactRefused(msg, code="CTL-356", found=repr(name)[:300], known=known, hint="make it without that")
