"""The files behind one version of Spark's state: which ones it needs, and whether they are whole.

A version is a snapshot and the changelogs after it. Each changelog names the ones before it, so a version is found from
the id that Spark's commit log gives it. The layout is that of checkpoint format 2.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.names import stays_inside, stored_part
from millstream.errors import CheckpointRefused

VERIFIED_BYTES = 64 << 20
"""Larger files are checked by their size only; Spark verifies their content when it loads them."""
_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_COMPRESSED = 0x20
_CRC_MAGIC = b"crc\0"
_REFERENCED = {"sstFiles": "SSTs", "logFiles": "logs"}
"""Where the files lie that a snapshot refers to, by the field that names them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file that cannot be used, and why."""

    file: Path
    what: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What one version of one store is made of."""

    files: tuple[Path, ...]
    damages: tuple[Damage, ...]


class _Unreadable(ValueError):
    """Content that is not what Spark writes."""


def damage(file: Path) -> str | None:
    """What is wrong with a file, judged by its size and by the checksums beside it; `None` if it is whole."""
    try:
        size = file.stat().st_size
        if size == 0:
            return "is empty"
        return _recorded_damage(file, size) or _hidden_damage(file, size)
    except FileNotFoundError:  # also where a running query retires the file while we look at it
        return "is missing"


def _recorded_damage(file: Path, size: int) -> str | None:
    beside = file.with_name(f"{file.name}.crc")
    if not beside.is_file():
        return None
    if damage(beside) is not None:
        return "has a damaged checksum file"
    return None if _recorded_size(beside) == size else "does not have the size that Spark recorded"


def _hidden_damage(file: Path, size: int) -> str | None:
    hidden = hidden_checksum(file)
    if size > VERIFIED_BYTES or not hidden.is_file():
        return None
    return None if _sums_agree(file, hidden.read_bytes()) else "does not match its checksum"


def hidden_checksum(file: Path) -> Path:
    """The checksum file that the local file system keeps beside a file."""
    return file.with_name(f".{file.name}.crc")


def _recorded_size(beside: Path) -> int | None:
    try:
        size: int = json.loads(beside.read_bytes())["mainFileSize"]
    except (ValueError, KeyError, TypeError):
        return None
    return size


def _sums_agree(file: Path, stored: bytes) -> bool:
    # A checksum file without its header is ignored by the file system too.
    if len(stored) < 8 or not stored.startswith(_CRC_MAGIC):
        return True
    step = int.from_bytes(stored[4:8], "big")
    with file.open("rb") as content:
        sums = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in iter(lambda: content.read(step), b""))
    return sums == stored[8:]


def version_chain(folder: Path, version: int, uid: str) -> Chain:
    """The files of a version in the folder of one store, with every damage among them."""
    newest = folder / f"{version}_{uid}.changelog"
    what = damage(newest)
    if what is not None:
        return Chain(files=(newest,), damages=(Damage(file=newest, what=what),))
    try:
        steps = [*_lineage(newest, version), (version, uid)]
    except _Unreadable as problem:
        return Chain(files=(newest,), damages=(Damage(file=newest, what=str(problem)),))
    snapshots = [step for step in steps if (folder / _name(step, "zip")).exists()]
    if not snapshots and steps[0][0] != 1:
        lost = Damage(file=folder / _name(steps[0], "zip"), what="is missing")
        return Chain(files=(newest,), damages=(lost,))
    base = snapshots[-1] if snapshots else None
    return _assembled(folder, steps, base, newest)


def _assembled(folder: Path, steps: list[tuple[int, str]], base: tuple[int, str] | None, newest: Path) -> Chain:
    after = 0 if base is None else base[0]
    logs = [folder / _name(step, "changelog") for step in steps if step[0] > after]
    # The newest changelog is read for its list of predecessors even where a snapshot of the same version exists.
    files = logs if newest in logs else [*logs, newest]
    damages = [Damage(file=file, what=what) for file in files if (what := damage(file)) is not None]
    if base is not None:
        parts, in_snapshot = _snapshot(folder / _name(base, "zip"))
        files, damages = [*parts, *files], [*in_snapshot, *damages]
    return Chain(files=tuple(files), damages=tuple(damages))


def _name(step: tuple[int, str], kind: str) -> str:
    return f"{step[0]}_{step[1]}.{kind}"


def _snapshot(file: Path) -> tuple[list[Path], list[Damage]]:
    what = damage(file)
    if what is not None:
        return [file], [Damage(file=file, what=what)]
    try:
        content = _snapshot_metadata(file)
    except _Unreadable as problem:
        return [file], [Damage(file=file, what=str(problem))]
    files, damages = [file], []
    for field, folder in _REFERENCED.items():
        for entry in content.get(field) or []:
            name = entry["dfsSstFileName" if field == "sstFiles" else "dfsLogFileName"]
            if not stays_inside(name):
                damages.append(Damage(file=file, what=f"names a file outside, {name!r}"))
                continue
            part = file.parent / folder / name
            files.append(part)
            flaw = damage(part)
            if flaw is None and part.stat().st_size != entry["sizeBytes"]:
                flaw = "does not have the size that its snapshot records"
            if flaw is not None:
                damages.append(Damage(file=part, what=flaw))
    return files, damages


def _snapshot_metadata(file: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            text = archive.read("metadata").decode()
        content: dict[str, Any] = json.loads(text.split("\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError) as problem:
        msg = f"is not a snapshot ({problem})"
        raise _Unreadable(msg) from None
    return content


def _lineage(changelog: Path, version: int) -> list[tuple[int, str]]:
    """The versions between the last snapshot and this one, as its changelog lists them."""
    with changelog.open("rb") as content:
        blocks = _decompressed(content.read(VERIFIED_BYTES))
    head = b""
    try:
        while len(head) < 6 or len(head) < _lineage_end(head):
            head += next(blocks)
        listed = [
            (int(item["version"]), stored_part(item["checkpointUniqueId"], of="a version of state"))
            for item in json.loads(head[6 : _lineage_end(head)])
        ]
    except (StopIteration, ValueError, KeyError, TypeError, CheckpointRefused) as problem:
        msg = f"is not a changelog ({problem})"
        raise _Unreadable(msg) from None
    expected = list(range(listed[0][0], version)) if listed else list(range(1, version))
    if [number for number, _ in listed] != expected:
        msg = f"is the changelog of another version than {version}"
        raise _Unreadable(msg)
    return listed


def _lineage_end(head: bytes) -> int:
    # Two strings as Java's writeUTF puts them: the version of the changelog, "v4", and its lineage as JSON.
    if head[:4] != b"\0\2v4":
        msg = f"starts with {head[:4]!r}"
        raise _Unreadable(msg)
    return 6 + int.from_bytes(head[4:6], "big")


def _decompressed(content: bytes) -> Iterator[bytes]:
    """The blocks of an LZ4 stream as the JVM's LZ4BlockOutputStream writes them."""
    codec, at = pa.Codec("lz4_raw"), 0
    while len(content) - at >= _LZ4_HEADER.size:
        magic, token, packed, size, _ = _LZ4_HEADER.unpack_from(content, at)
        if magic != _LZ4_MAGIC:
            msg = "is not compressed with lz4"
            raise _Unreadable(msg)
        at += _LZ4_HEADER.size
        block = content[at : at + packed]
        try:
            yield codec.decompress(block, size).to_pybytes() if token & 0xF0 == _LZ4_COMPRESSED else block
        except (pa.ArrowException, OSError) as problem:
            raise _Unreadable(str(problem)) from None
        at += packed
