"""Unpacks code into a folder of its own, which is there as a whole or not at all, and never follows a link on the way."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from millstream.control.artifacts.archive import contents_of
from millstream.control.artifacts.checks import UnpackedFile, files_of
from millstream.control.artifacts.limits import UnpackBudget
from millstream.control.artifacts.store import ArtifactStore

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COMPILED = "__pycache__"
_PIECE = 1 << 20


def unpack(store: ArtifactStore, sha256: str, target: Path) -> None:
    """Make a folder with the code of an artifact, to be put on `sys.path`; what is there already as it should be stays.

    Raises:
        UnknownName: (CTL-358) there is no such artifact.
        ArtifactRefused: (CTL-350 to CTL-359) it must not be unpacked.
    """
    with store.opened(sha256) as (file, kind):
        files = files_of(file, kind)
        if _is_intact(target, files):
            return
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            made.mkdir(mode=0o700)
            _write_all(file, files, made)
            _put(made, target, files)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _put(made: Path, target: Path, files: list[UnpackedFile]) -> None:
    """Another who unpacks the same may be first: then its folder is as good. A damaged one is moved away."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            made.rename(target)
            return
        if _is_intact(target, files):
            return
        away = made.with_name(f"{made.name}.away")
        with contextlib.suppress(FileNotFoundError):
            target.rename(away)
        if away.is_symlink() or away.is_file():
            away.unlink()
        shutil.rmtree(away, ignore_errors=True)
    made.rename(target)


def _write_all(file: BinaryIO, files: list[UnpackedFile], root: Path) -> None:
    budget = UnpackBudget()
    with _opened(os.open(root, _FOLDER)) as top:
        for each in files:
            with _folder(top, each.parts[:-1]) as folder:
                handle = os.open(each.parts[-1], _NEW, 0o600, dir_fd=folder)
                with os.fdopen(handle, "wb") as out:
                    out.writelines(contents_of(file, each.entry, budget))


@contextlib.contextmanager
def _folder(top: int, parts: tuple[str, ...]) -> Iterator[int]:
    """A folder below another, made if it is missing, reached part by part."""
    with contextlib.ExitStack() as opened:
        at = top
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=at)
            at = opened.enter_context(_opened(os.open(part, _FOLDER, dir_fd=at)))
        yield at


@contextlib.contextmanager
def _opened(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _is_intact(target: Path, files: list[UnpackedFile]) -> bool:
    """Whether it holds these files and no others but those that Python makes: a machine that lost power may have lost some."""
    if target.is_symlink() or not target.is_dir():
        return False
    there = {
        Path(folder, name).relative_to(target).parts
        for folder, _, names in os.walk(target)
        for name in names
        if Path(folder).name != _COMPILED
    }
    return there == {each.parts for each in files} and all(_is_same(target, each) for each in files)


def _is_same(target: Path, each: UnpackedFile) -> bool:
    path = target.joinpath(*each.parts)
    if any(above.is_symlink() for above in (path, *path.parents) if above.is_relative_to(target)):
        return False
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return crc == each.entry.crc and path.stat().st_size == each.entry.size
