"""A store in a directory: temporary file, fsync, hard link or rename, fsync of the directory; and the lock of a directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from millstream.checkpoint.stores.base import checked_name, checked_prefix, folder_of
from millstream.errors import ExternalFailure

LOCK_FILE = ".lock"
LOCK_SECONDS = 30.0
_POLL_SECONDS = 0.01


class LocalStore:
    """Objects as files. A crash leaves an object whole or absent; files that start with a dot are no objects."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)
        make_directory(self._root)

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    def create(self, name: str, content: bytes) -> bool:
        """Publish a file under a new name, durably.

        Where the directory cannot be synced, the name is taken back: an object that a power loss could remove was never there.
        """
        path = self._path(name)
        make_directory(path.parent)
        with _temporary(path.parent, content) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
        try:
            sync_directory(path.parent)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return True

    def read(self, name: str) -> bytes | None:
        """A file's content, or `None`."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        folder = self._root / folder_of(checked_prefix(prefix))
        names = (str(path.relative_to(self._root)) for path in _files(folder))
        return sorted(name for name in names if name.startswith(prefix))

    def swap(self, name: str, expected: bytes | None, content: bytes) -> bool:
        """Replace a file's content under the lock of its folder, durably.

        An `OSError` after the rename leaves the outcome open: the new content is there, but a power loss may bring the old back.
        """
        if expected is None:
            return self.create(name, content)
        path = self._path(name)
        if self.read(name) != expected:  # also spares the lock file where there is no folder
            return False
        with locked(path.parent), _temporary(path.parent, content) as temporary:
            if self.read(name) != expected:
                return False
            temporary.replace(path)
            sync_directory(path.parent)
        return True

    def close(self) -> None:
        """Nothing is open."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there; never one that a swap is just replacing."""
        path = self._path(name)
        if not path.exists():
            return
        with locked(path.parent):
            path.unlink(missing_ok=True)
            sync_directory(path.parent)

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)


@contextlib.contextmanager
def locked(folder: Path, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock of a directory, alone among all threads and processes of this machine.

    The lock ends with its process, so a crash leaves none behind. It is not re-entrant.

    Raises:
        ExternalFailure: (CKPT-031) another owner kept the lock for all of `seconds`.
    """
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(handle, folder, seconds)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough where a child process inherited the handle
        os.close(handle)


def _acquire(handle: int, folder: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise _still_locked(handle, folder, seconds) from None
            time.sleep(_POLL_SECONDS)
        else:
            return


def _still_locked(handle: int, folder: Path, seconds: float) -> ExternalFailure:
    holder = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
    msg = f"the lock of {str(folder)!r} was not free within {seconds:g} s"
    return ExternalFailure(
        msg,
        code="CKPT-031",
        found=f"last taken by process {holder}",
        hint="a process that is stopped or hangs may hold it; continue or end it, and start again",
    )


@contextlib.contextmanager
def _temporary(folder: Path, content: bytes) -> Iterator[Path]:
    path = folder / f".{uuid.uuid4().hex}"
    try:
        write_synced(path, content)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(Path(entry.path))
        else:
            yield Path(entry.path)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_directory(path: Path) -> None:
    """Make a directory and those above it, and wait until the disk has their names."""
    if path.is_dir():
        return
    make_directory(path.absolute().parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.absolute().parent)


def sync_directory(path: Path) -> None:
    """Wait until the disk has the names in a directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
